; out[i] = in[i] + step, for every i < n; step is a constant of the module.
target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"

@step = addrspace(4) externally_initialized global i32 0, align 4

declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()

define void @add_step(ptr %out, ptr %in, i32 %n) {
entry:
  %tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %ntid = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %ctaid = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %base = mul i32 %ctaid, %ntid
  %i = add i32 %base, %tid
  %inside = icmp slt i32 %i, %n
  br i1 %inside, label %work, label %end

work:
  %index = sext i32 %i to i64
  %from = getelementptr i32, ptr %in, i64 %index
  %to = getelementptr i32, ptr %out, i64 %index
  %value = load i32, ptr %from
  %step = load i32, ptr addrspace(4) @step
  %sum = add i32 %value, %step
  store i32 %sum, ptr %to
  br label %end

end:
  ret void
}

!nvvm.annotations = !{!0}
!0 = !{ptr @add_step, !"kernel", i32 1}
