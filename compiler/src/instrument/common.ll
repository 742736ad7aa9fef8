; What both kinds of instrumentation use. The words of the state are named in layout.rs.

@__mneme_state = addrspace(1) externally_initialized global [16 x i64] zeroinitializer, align 16

declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.tid.y()
declare i32 @llvm.nvvm.read.ptx.sreg.tid.z()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.y()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.z()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.z()
declare i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.nctaid.y()

define internal i64 @__mneme_word(i64 %index) alwaysinline nounwind {
  %place = getelementptr inbounds [16 x i64], ptr addrspace(1) @__mneme_state, i64 0, i64 %index
  %word = load i64, ptr addrspace(1) %place, align 8
  ret i64 %word
}

; The number of the running thread in its block, x varying fastest.
define internal i32 @__mneme_thread() alwaysinline nounwind {
  %x = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %y = call i32 @llvm.nvvm.read.ptx.sreg.tid.y()
  %z = call i32 @llvm.nvvm.read.ptx.sreg.tid.z()
  %width = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %height = call i32 @llvm.nvvm.read.ptx.sreg.ntid.y()
  %slices = mul i32 %z, %height
  %rows = add i32 %slices, %y
  %before = mul i32 %rows, %width
  %thread = add i32 %before, %x
  ret i32 %thread
}

; The number of its block in the grid.
define internal i64 @__mneme_block() alwaysinline nounwind {
  %x = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %y = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
  %z = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.z()
  %width = call i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()
  %height = call i32 @llvm.nvvm.read.ptx.sreg.nctaid.y()
  %wide.x = zext i32 %x to i64
  %wide.y = zext i32 %y to i64
  %wide.z = zext i32 %z to i64
  %wide.width = zext i32 %width to i64
  %wide.height = zext i32 %height to i64
  %slices = mul i64 %wide.z, %wide.height
  %rows = add i64 %slices, %wide.y
  %before = mul i64 %rows, %wide.width
  %block = add i64 %before, %wide.x
  ret i64 %block
}
