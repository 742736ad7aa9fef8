// Objects with virtual functions: one kernel creates them in device memory, and another one calls them through their
// base class. Objects refer to their class by an address of code, or of a table of such addresses, which is specific to
// a load of a module.
#include "check.cuh"

#include <new>

struct Shape {
    __device__ virtual long area() const = 0;
    __device__ virtual long corners() const { return 0; }
};

struct Square : Shape {
    long side;
    __device__ explicit Square(long side) : side(side) {}
    __device__ long area() const override { return side * side; }
    __device__ long corners() const override { return 4; }
};

struct Rectangle : Square {
    long height;
    __device__ Rectangle(long side, long height) : Square(side), height(height) {}
    __device__ long area() const override { return side * height; }
};

struct Disc : Shape {
    long radius;
    __device__ explicit Disc(long radius) : radius(radius) {}
    __device__ long area() const override { return 3 * radius * radius; }
};

union Place {
    Place() {}
    Square square;
    Rectangle rectangle;
    Disc disc;
};

__global__ void build(Place *places, Shape **shapes, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    void *place = &places[i];
    switch (i % 3) {
    case 0: shapes[i] = new (place) Square(i); break;
    case 1: shapes[i] = new (place) Rectangle(i, 2); break;
    default: shapes[i] = new (place) Disc(i);
    }
}

__global__ void measure(Shape *const *shapes, long *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = shapes[i]->area() * 10 + shapes[i]->corners();
}

int main(int argc, char **argv) {
    int n = static_cast<int>(size_argument(argc, argv, 300));
    DeviceArray<char> places(n * sizeof(Place));
    DeviceArray<Shape *> shapes(n);
    DeviceArray<long> out(n);
    build<<<blocks_for(n, 64), 64>>>(reinterpret_cast<Place *>(places.get()), shapes.get(), n);
    measure<<<blocks_for(n, 64), 64>>>(shapes.get(), out.get(), n);
    LAUNCH_OK();
    bool right = true;
    std::vector<long> result = out.download();
    for (long i = 0; i < n; ++i) {
        long expected = i % 3 == 0 ? i * i * 10 + 4 : i % 3 == 1 ? 2 * i * 10 + 4 : 3 * i * i * 10;
        right = right && result[i] == expected;
    }
    return finish("virtual", right, n);
}
