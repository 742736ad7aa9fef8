; Who runs, and what an address is in: AMD's GPUs. The sizes of a launch are in the packet of its dispatch, whatever the version of the
; code object: those of a block from byte 4 on, 16 bits each, those of the grid in threads from byte 12 on, 32 bits each.

declare i32 @llvm.amdgcn.workitem.id.x()
declare i32 @llvm.amdgcn.workitem.id.y()
declare i32 @llvm.amdgcn.workitem.id.z()
declare i32 @llvm.amdgcn.workgroup.id.x()
declare i32 @llvm.amdgcn.workgroup.id.y()
declare i32 @llvm.amdgcn.workgroup.id.z()
declare ptr addrspace(4) @llvm.amdgcn.dispatch.ptr()
declare i32 @llvm.amdgcn.wavefrontsize()
declare i1 @llvm.amdgcn.is.shared(ptr)
declare i1 @llvm.amdgcn.is.private(ptr)
declare i32 @llvm.cttz.i32(i32, i1)

define internal i32 @__mneme_launch_short(i64 %offset) alwaysinline nounwind {
  %packet = call ptr addrspace(4) @llvm.amdgcn.dispatch.ptr()
  %place = getelementptr i8, ptr addrspace(4) %packet, i64 %offset
  %short = load i16, ptr addrspace(4) %place, align 2
  %number = zext i16 %short to i32
  ret i32 %number
}

; Blocks of so many threads in an extent of the grid: the last one may be smaller.
define internal i32 @__mneme_launch_blocks(i64 %offset, i32 %threads) alwaysinline nounwind {
  %packet = call ptr addrspace(4) @llvm.amdgcn.dispatch.ptr()
  %place = getelementptr i8, ptr addrspace(4) %packet, i64 %offset
  %all = load i32, ptr addrspace(4) %place, align 4
  %last = sub i32 %all, 1
  %before = udiv i32 %last, %threads
  %blocks = add i32 %before, 1
  ret i32 %blocks
}

define internal { i32, i32, i32 } @__mneme_thread_place() alwaysinline nounwind {
  %x = call i32 @llvm.amdgcn.workitem.id.x()
  %y = call i32 @llvm.amdgcn.workitem.id.y()
  %z = call i32 @llvm.amdgcn.workitem.id.z()
  %triple = call { i32, i32, i32 } @__mneme_triple(i32 %x, i32 %y, i32 %z)
  ret { i32, i32, i32 } %triple
}

define internal { i32, i32, i32 } @__mneme_block_size() alwaysinline nounwind {
  %x = call i32 @__mneme_launch_short(i64 4)
  %y = call i32 @__mneme_launch_short(i64 6)
  %z = call i32 @__mneme_launch_short(i64 8)
  %triple = call { i32, i32, i32 } @__mneme_triple(i32 %x, i32 %y, i32 %z)
  ret { i32, i32, i32 } %triple
}

define internal { i32, i32, i32 } @__mneme_block_place() alwaysinline nounwind {
  %x = call i32 @llvm.amdgcn.workgroup.id.x()
  %y = call i32 @llvm.amdgcn.workgroup.id.y()
  %z = call i32 @llvm.amdgcn.workgroup.id.z()
  %triple = call { i32, i32, i32 } @__mneme_triple(i32 %x, i32 %y, i32 %z)
  ret { i32, i32, i32 } %triple
}

define internal { i32, i32, i32 } @__mneme_grid_size() alwaysinline nounwind {
  %width = call i32 @__mneme_launch_short(i64 4)
  %height = call i32 @__mneme_launch_short(i64 6)
  %depth = call i32 @__mneme_launch_short(i64 8)
  %x = call i32 @__mneme_launch_blocks(i64 12, i32 %width)
  %y = call i32 @__mneme_launch_blocks(i64 16, i32 %height)
  %z = call i32 @__mneme_launch_blocks(i64 20, i32 %depth)
  %triple = call { i32, i32, i32 } @__mneme_triple(i32 %x, i32 %y, i32 %z)
  ret { i32, i32, i32 } %triple
}

; Lanes of a wave, as a power of two.
define internal i32 @__mneme_lane_bits() alwaysinline nounwind {
  %lanes = call i32 @llvm.amdgcn.wavefrontsize()
  %bits = call i32 @llvm.cttz.i32(i32 %lanes, i1 true)
  ret i32 %bits
}

define internal i1 @__mneme_is_shared(ptr %place) alwaysinline nounwind {
  %is = call i1 @llvm.amdgcn.is.shared(ptr %place)
  ret i1 %is
}

define internal i1 @__mneme_is_local(ptr %place) alwaysinline nounwind {
  %is = call i1 @llvm.amdgcn.is.private(ptr %place)
  ret i1 %is
}

