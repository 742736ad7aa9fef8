; data[i] += step (a constant) and *counter += 1 (a device variable), for every i < n.
; Three block shapes make it misbehave: 33 threads write where nothing is mapped, 34 write behind the end of the data, 65 never end.
target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"

@step = addrspace(4) externally_initialized global i32 0, align 4
@counter = addrspace(1) externally_initialized global i32 0, align 4

declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()

define void @_Z6updatePii(ptr %data, i32 %n) {
entry:
  %tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %ntid = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %ctaid = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  switch i32 %ntid, label %work [
    i32 33, label %fault
    i32 34, label %stray
    i32 65, label %hang
  ]

fault:
  %nowhere = inttoptr i64 4096 to ptr
  store volatile i32 1, ptr %nowhere
  br label %work

stray:
  %end = sext i32 %n to i64
  %behind = getelementptr i32, ptr %data, i64 %end
  store i32 1, ptr %behind
  br label %work

hang:
  %ignored = load volatile i32, ptr %data
  br label %hang

work:
  %base = mul i32 %ctaid, %ntid
  %i = add i32 %base, %tid
  %inside = icmp slt i32 %i, %n
  br i1 %inside, label %update, label %done

update:
  %index = sext i32 %i to i64
  %place = getelementptr i32, ptr %data, i64 %index
  %old = load i32, ptr %place
  %by = load i32, ptr addrspacecast (ptr addrspace(4) @step to ptr)
  %new = add i32 %old, %by
  store i32 %new, ptr %place
  %seen = atomicrmw add ptr addrspacecast (ptr addrspace(1) @counter to ptr), i32 1 seq_cst
  br label %done

done:
  ret void
}

!nvvm.annotations = !{!0}
!0 = !{ptr @_Z6updatePii, !"kernel", i32 1}
