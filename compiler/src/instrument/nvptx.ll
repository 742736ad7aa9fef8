; Who runs, and what an address is in: NVIDIA's GPUs.

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
declare i32 @llvm.nvvm.read.ptx.sreg.nctaid.z()
declare i1 @llvm.nvvm.isspacep.shared(ptr)
declare i1 @llvm.nvvm.isspacep.local(ptr)

define internal { i32, i32, i32 } @__mneme_thread_place() alwaysinline nounwind {
  %x = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %y = call i32 @llvm.nvvm.read.ptx.sreg.tid.y()
  %z = call i32 @llvm.nvvm.read.ptx.sreg.tid.z()
  %triple = call { i32, i32, i32 } @__mneme_triple(i32 %x, i32 %y, i32 %z)
  ret { i32, i32, i32 } %triple
}

define internal { i32, i32, i32 } @__mneme_block_size() alwaysinline nounwind {
  %x = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %y = call i32 @llvm.nvvm.read.ptx.sreg.ntid.y()
  %z = call i32 @llvm.nvvm.read.ptx.sreg.ntid.z()
  %triple = call { i32, i32, i32 } @__mneme_triple(i32 %x, i32 %y, i32 %z)
  ret { i32, i32, i32 } %triple
}

define internal { i32, i32, i32 } @__mneme_block_place() alwaysinline nounwind {
  %x = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %y = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
  %z = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.z()
  %triple = call { i32, i32, i32 } @__mneme_triple(i32 %x, i32 %y, i32 %z)
  ret { i32, i32, i32 } %triple
}

define internal { i32, i32, i32 } @__mneme_grid_size() alwaysinline nounwind {
  %x = call i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()
  %y = call i32 @llvm.nvvm.read.ptx.sreg.nctaid.y()
  %z = call i32 @llvm.nvvm.read.ptx.sreg.nctaid.z()
  %triple = call { i32, i32, i32 } @__mneme_triple(i32 %x, i32 %y, i32 %z)
  ret { i32, i32, i32 } %triple
}

; Lanes of a warp, as a power of two.
define internal i32 @__mneme_lane_bits() alwaysinline nounwind {
  ret i32 5
}

define internal i1 @__mneme_is_shared(ptr %place) alwaysinline nounwind {
  %is = call i1 @llvm.nvvm.isspacep.shared(ptr %place)
  ret i1 %is
}

define internal i1 @__mneme_is_local(ptr %place) alwaysinline nounwind {
  %is = call i1 @llvm.nvvm.isspacep.local(ptr %place)
  ret i1 %is
}

