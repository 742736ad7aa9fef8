"""CuPy: a kernel of another process works on this one's memory, through a CUDA IPC handle."""

import multiprocessing

import cupy

COUNT = 100_000
SOURCE = r"""
extern "C" __global__ void cupy_twice(float *x, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) x[i] *= 2.0f;
}
"""


def other(handle: bytes) -> None:
    address = cupy.cuda.runtime.ipcOpenMemHandle(handle)
    memory = cupy.cuda.UnownedMemory(address, 4 * COUNT, None)
    x = cupy.ndarray(COUNT, cupy.float32, cupy.cuda.MemoryPointer(memory, 0))
    cupy.RawKernel(SOURCE, "cupy_twice")((64,), (256,), (x, cupy.int32(COUNT)))
    cupy.cuda.Device().synchronize()
    cupy.cuda.runtime.ipcCloseMemHandle(address)


if __name__ == "__main__":
    x = cupy.arange(COUNT, dtype=cupy.float32)
    cupy.cuda.Device().synchronize()
    handle = cupy.cuda.runtime.ipcGetMemHandle(x.data.ptr)
    process = multiprocessing.get_context("spawn").Process(target=other, args=(handle,))
    process.start()
    process.join()
    assert process.exitcode == 0
    assert bool((x == 2 * cupy.arange(COUNT, dtype=cupy.float32)).all())
    print("cupy_sharing: ok")
