; Imports of lowered modules from the CPU device (docs/reference/cpu-code-objects.md), and helpers for the generated bodies.

declare ptr @__mneme_cpu_thread() #0
declare void @__mneme_cpu_barrier(i32, i32) #1
declare void @__mneme_cpu_barrier_arrive(i32, i32)
declare i32 @__mneme_cpu_barrier_vote(i32, i32, i32, i32) #1
declare void @__mneme_cpu_warp_sync(i32) #1
declare i64 @__mneme_cpu_shuffle(i32, i32, i32, i32, i32) #1
declare i32 @__mneme_cpu_vote(i32, i32, i32) #1
declare i64 @__mneme_cpu_match(i32, i32, i64) #1
declare i32 @__mneme_cpu_redux(i32, i32, i32) #1
declare i32 @__mneme_cpu_activemask() #1
declare i32 @__mneme_cpu_printf(ptr, ptr) #2
declare ptr @__mneme_cpu_malloc(i64) #2
declare void @__mneme_cpu_free(ptr) #2
declare void @__mneme_cpu_assert(ptr, ptr, i32, ptr) #3
declare void @__mneme_cpu_trap() #3
declare i64 @__mneme_cpu_clock() #2
declare void @__mneme_cpu_yield() #2
declare i64 @__mneme_cpu_grid_workspace() #0
declare void @__mneme_cpu_multiply_matrices(i32, i32, i32, ptr) #1
declare void @__mneme_cpu_load_matrices(i32, i32, ptr, ptr) #1
declare void @__mneme_cpu_store_matrices(i32, i32, ptr, ptr) #1
declare void @__mneme_cpu_multiply_fragments(i32, i32, ptr) #1
declare void @__mneme_cpu_load_fragment(i32, i32, ptr, i32, ptr) #1
declare void @__mneme_cpu_store_fragment(i32, i32, ptr, i32, ptr) #1
declare void @__mneme_cpu_texture(i64, i32, ptr) #2
declare void @__mneme_cpu_surface_load(i64, i32, ptr) #2
declare void @__mneme_cpu_surface_store(i64, i32, ptr) #2
declare i32 @__mneme_cpu_image_query(i64, i32) #2
declare void @__mneme_cpu_cluster_arrive() #1
declare void @__mneme_cpu_cluster_wait() #1
declare i64 @__mneme_cpu_round(i32, i32, i64, i64, i64) #0
declare ptr addrspace(3) @__mneme_cpu.reserved()
declare float @tanhf(float) #0
declare double @tanh(double) #0

; A word of the thread context. It does not change while an entry runs.
define i32 @__mneme_cpu.context(i64 %offset) alwaysinline nounwind {
  %thread = call ptr @__mneme_cpu_thread()
  %word = getelementptr inbounds i8, ptr %thread, i64 %offset
  %value = load i32, ptr %word, align 4, !invariant.load !0
  ret i32 %value
}

; An address in the block's shared memory.
define ptr addrspace(3) @__mneme_cpu.shared(i64 %offset) alwaysinline nounwind {
  %thread = call ptr @__mneme_cpu_thread()
  %field = getelementptr inbounds i8, ptr %thread, i64 64
  %base = load ptr, ptr %field, align 8, !invariant.load !0
  %address = getelementptr inbounds i8, ptr %base, i64 %offset
  %shared = addrspacecast ptr %address to ptr addrspace(3)
  ret ptr addrspace(3) %shared
}

; A shared-memory address in the block's cluster, from its low half; the upper bits may be lost. The memory of a cluster is
; contiguous, so the address is near the block's own memory.
define i64 @__mneme_cpu.from_shared(i64 %address) alwaysinline nounwind {
  %shared = call ptr addrspace(3) @__mneme_cpu.shared(i64 0)
  %base = ptrtoint ptr addrspace(3) %shared to i64
  %difference = sub i64 %address, %base
  %low = trunc i64 %difference to i32
  %distance = sext i32 %low to i64
  %whole = add i64 %base, %distance
  ret i64 %whole
}

; Whether a generic address lies in the block's shared memory.
define i1 @__mneme_cpu.is_shared(ptr %address) alwaysinline nounwind {
  %shared = call ptr addrspace(3) @__mneme_cpu.shared(i64 0)
  %base = ptrtoint ptr addrspace(3) %shared to i64
  %value = ptrtoint ptr %address to i64
  %distance = sub i64 %value, %base
  %bytes = call i32 @__mneme_cpu.context(i64 60)
  %wide = zext i32 %bytes to i64
  %inside = icmp ult i64 %distance, %wide
  ret i1 %inside
}

; The block's rank in its cluster, and the number of blocks in the cluster.
define i32 @__mneme_cpu.cluster_rank() alwaysinline nounwind {
  %width = call i32 @__mneme_cpu.context(i64 72)
  %height = call i32 @__mneme_cpu.context(i64 76)
  %depth = call i32 @__mneme_cpu.context(i64 80)
  %block.x = call i32 @__mneme_cpu.context(i64 24)
  %block.y = call i32 @__mneme_cpu.context(i64 28)
  %block.z = call i32 @__mneme_cpu.context(i64 32)
  %x = urem i32 %block.x, %width
  %y = urem i32 %block.y, %height
  %z = urem i32 %block.z, %depth
  %planes = mul i32 %height, %z
  %row = add i32 %y, %planes
  %rows = mul i32 %width, %row
  %rank = add i32 %x, %rows
  ret i32 %rank
}

define i32 @__mneme_cpu.cluster_blocks() alwaysinline nounwind {
  %width = call i32 @__mneme_cpu.context(i64 72)
  %height = call i32 @__mneme_cpu.context(i64 76)
  %depth = call i32 @__mneme_cpu.context(i64 80)
  %plane = mul i32 %width, %height
  %blocks = mul i32 %plane, %depth
  ret i32 %blocks
}

; Bytes from the shared memory of a block to that of the next block in its cluster.
define i64 @__mneme_cpu.cluster_stride() alwaysinline nounwind {
  %bytes = call i32 @__mneme_cpu.context(i64 60)
  %more = add i32 %bytes, 127
  %lines = and i32 %more, -128
  %stride = zext i32 %lines to i64
  ret i64 %stride
}

; The offset of an address in the cluster's shared memory.
define i64 @__mneme_cpu.cluster_offset(i64 %address) alwaysinline nounwind {
  %shared = call ptr addrspace(3) @__mneme_cpu.shared(i64 0)
  %base = ptrtoint ptr addrspace(3) %shared to i64
  %rank = call i32 @__mneme_cpu.cluster_rank()
  %wide = zext i32 %rank to i64
  %stride = call i64 @__mneme_cpu.cluster_stride()
  %before = mul i64 %wide, %stride
  %distance = sub i64 %address, %base
  %offset = add i64 %distance, %before
  ret i64 %offset
}

; Maps an address in the block's shared memory (or its low half) to another block of the cluster, and finds the block of an address.
define i64 @__mneme_cpu.in_block(i64 %address, i32 %rank) alwaysinline nounwind {
  %own = call i32 @__mneme_cpu.cluster_rank()
  %steps = sub i32 %rank, %own
  %wide = sext i32 %steps to i64
  %stride = call i64 @__mneme_cpu.cluster_stride()
  %distance = mul i64 %wide, %stride
  %there = add i64 %address, %distance
  ret i64 %there
}

define i32 @__mneme_cpu.block_of(i64 %address) alwaysinline nounwind {
  %offset = call i64 @__mneme_cpu.cluster_offset(i64 %address)
  %stride = call i64 @__mneme_cpu.cluster_stride()
  %least = call i64 @llvm.umax.i64(i64 %stride, i64 1)
  %rank = udiv i64 %offset, %least
  %narrow = trunc i64 %rank to i32
  ret i32 %narrow
}

; Whether a generic address lies in the shared memory of the block's cluster.
define i1 @__mneme_cpu.is_cluster_shared(ptr %address) alwaysinline nounwind {
  %value = ptrtoint ptr %address to i64
  %offset = call i64 @__mneme_cpu.cluster_offset(i64 %value)
  %stride = call i64 @__mneme_cpu.cluster_stride()
  %blocks = call i32 @__mneme_cpu.cluster_blocks()
  %wide = zext i32 %blocks to i64
  %bytes = mul i64 %stride, %wide
  %inside = icmp ult i64 %offset, %bytes
  ret i1 %inside
}

; Whether a generic address lies on the thread's stack.
define i1 @__mneme_cpu.is_local(ptr %address) alwaysinline nounwind {
  %thread = call ptr @__mneme_cpu_thread()
  %field = getelementptr inbounds i8, ptr %thread, i64 88
  %low = load i64, ptr %field, align 8, !invariant.load !0
  %after = getelementptr inbounds i8, ptr %thread, i64 96
  %high = load i64, ptr %after, align 8, !invariant.load !0
  %value = ptrtoint ptr %address to i64
  %distance = sub i64 %value, %low
  %bytes = sub i64 %high, %low
  %inside = icmp ult i64 %distance, %bytes
  ret i1 %inside
}

; A barrier in memory: bits 0 to 19 are the arrivals that the phase still needs, 20 to 39 the arrivals per phase, 40 to 61
; the pending bytes (signed), and bit 62 is the phase's parity.
define void @__mneme_cpu.mbarrier_init(ptr %at, i32 %count) alwaysinline nounwind {
  %wide = zext i32 %count to i64
  %each = shl i64 %wide, 20
  %word = or i64 %each, %wide
  store atomic i64 %word, ptr %at release, align 8
  ret void
}

; Counts arrivals, arrivals that later phases lack, and pending bytes. Returns the previous state of the barrier.
define i64 @__mneme_cpu.mbarrier_count(ptr %at, i32 %arrived, i32 %dropped, i32 %bytes) alwaysinline nounwind {
start:
  %fewer = zext i32 %arrived to i64
  %gone = zext i32 %dropped to i64
  %more = sext i32 %bytes to i64
  %first = load atomic i64, ptr %at acquire, align 8
  br label %try
try:
  %old = phi i64 [ %first, %start ], [ %found, %try ]
  %pending = and i64 %old, 1048575
  %pending.less = sub i64 %pending, %fewer
  %pending.now = and i64 %pending.less, 1048575
  %upper = lshr i64 %old, 20
  %each = and i64 %upper, 1048575
  %each.less = sub i64 %each, %gone
  %each.now = and i64 %each.less, 1048575
  %high = shl i64 %old, 2
  %expected = ashr i64 %high, 42
  %expected.sum = add i64 %expected, %more
  %expected.now = and i64 %expected.sum, 4194303
  %phase = and i64 %old, 4611686018427387904
  %other = xor i64 %phase, 4611686018427387904
  %left = or i64 %pending.now, %expected.now
  %done = icmp eq i64 %left, 0
  %next.phase = select i1 %done, i64 %other, i64 %phase
  %next.pending = select i1 %done, i64 %each.now, i64 %pending.now
  %each.placed = shl i64 %each.now, 20
  %expected.placed = shl i64 %expected.now, 40
  %counts = or i64 %next.pending, %each.placed
  %placed = or i64 %expected.placed, %next.phase
  %new = or i64 %counts, %placed
  %pair = cmpxchg ptr %at, i64 %old, i64 %new acq_rel acquire, align 8
  %found = extractvalue { i64, i1 } %pair, 0
  %stored = extractvalue { i64, i1 } %pair, 1
  br i1 %stored, label %end, label %try
end:
  ret i64 %old
}

; Whether the barrier's phase differs from that of a state.
define i1 @__mneme_cpu.mbarrier_left(ptr %at, i64 %state) alwaysinline nounwind {
  %now = load atomic i64, ptr %at acquire, align 8
  %change = xor i64 %now, %state
  %moved = and i64 %change, 4611686018427387904
  %left = icmp ne i64 %moved, 0
  ret i1 %left
}

; Subnormals become zero of the same sign (`.ftz`).
define float @__mneme_cpu.ftz(float %value) alwaysinline nounwind {
  %magnitude = call float @llvm.fabs.f32(float %value)
  %small = fcmp olt float %magnitude, 0x3810000000000000
  %zero = call float @llvm.copysign.f32(float 0.0, float %value)
  %result = select i1 %small, float %zero, float %value
  ret float %result
}

define double @__mneme_cpu.ftz64(double %value) alwaysinline nounwind {
  %magnitude = call double @llvm.fabs.f64(double %value)
  %small = fcmp olt double %magnitude, 0x0010000000000000
  %zero = call double @llvm.copysign.f64(double 0.0, double %value)
  %result = select i1 %small, double %zero, double %value
  ret double %result
}

; `prmt.b32`, default mode: each nibble of the selector selects a byte of {b, a}, or its sign.
define i32 @__mneme_cpu.byte(i64 %bytes, i32 %selector, i32 %shift) alwaysinline nounwind {
  %nibble = lshr i32 %selector, %shift
  %index = and i32 %nibble, 7
  %bits = shl i32 %index, 3
  %wide = zext i32 %bits to i64
  %moved = lshr i64 %bytes, %wide
  %byte = trunc i64 %moved to i8
  %sign = ashr i8 %byte, 7
  %flag = and i32 %nibble, 8
  %plain = icmp eq i32 %flag, 0
  %chosen = select i1 %plain, i8 %byte, i8 %sign
  %place = zext i8 %chosen to i32
  %doubled = shl i32 %shift, 1
  %result = shl i32 %place, %doubled
  ret i32 %result
}

define i32 @__mneme_cpu.permute(i32 %a, i32 %b, i32 %selector) alwaysinline nounwind {
  %low = zext i32 %a to i64
  %wide = zext i32 %b to i64
  %high = shl i64 %wide, 32
  %bytes = or i64 %low, %high
  %part0 = call i32 @__mneme_cpu.byte(i64 %bytes, i32 %selector, i32 0)
  %part1 = call i32 @__mneme_cpu.byte(i64 %bytes, i32 %selector, i32 4)
  %part2 = call i32 @__mneme_cpu.byte(i64 %bytes, i32 %selector, i32 8)
  %part3 = call i32 @__mneme_cpu.byte(i64 %bytes, i32 %selector, i32 12)
  %part4 = or i32 %part0, %part1
  %part5 = or i32 %part2, %part3
  %part6 = or i32 %part4, %part5
  ret i32 %part6
}

; A double rounded to float toward zero (mode 1), down (2) or up (3): round to nearest, then step back if the result is past the value.
define float @__mneme_cpu.narrow(double %value, i32 %mode) alwaysinline nounwind {
  %nearest = fptrunc double %value to float
  %bits = bitcast float %nearest to i32
  %exact = fpext float %nearest to double
  %above = fcmp ogt double %exact, %value
  %below = fcmp olt double %exact, %value
  %negative = icmp slt i32 %bits, 0
  %outer = select i1 %negative, i1 %below, i1 %above
  %toward_zero = icmp eq i32 %mode, 1
  %down = icmp eq i32 %mode, 2
  %directed = select i1 %down, i1 %above, i1 %below
  %step = select i1 %toward_zero, i1 %outer, i1 %directed
  %shrinks = select i1 %toward_zero, i1 true, i1 %outer
  %less = sub i32 %bits, 1
  %more = add i32 %bits, 1
  %moved = select i1 %shrinks, i32 %less, i32 %more
  %chosen = select i1 %step, i32 %moved, i32 %bits
  %result = bitcast i32 %chosen to float
  ret float %result
}

; A double rounded to a 16-bit float with `mantissa` explicit bits and an exponent bias; mode as in `__mneme_cpu_round`. NaN becomes 0x7fff.
define double @__mneme_cpu.widen16(i16 %bits, i64 %mantissa) alwaysinline nounwind {
  %half = bitcast i16 %bits to half
  %of.half = fpext half %half to double
  %wide = zext i16 %bits to i32
  %high = shl i32 %wide, 16
  %float = bitcast i32 %high to float
  %of.brain = fpext float %float to double
  %is.half = icmp eq i64 %mantissa, 10
  %value = select i1 %is.half, double %of.half, double %of.brain
  ret double %value
}

define i16 @__mneme_cpu.add16(ptr %at, i16 %value, i64 %mantissa, i64 %bias) alwaysinline nounwind {
start:
  %more = call double @__mneme_cpu.widen16(i16 %value, i64 %mantissa)
  %first = load atomic i16, ptr %at acquire, align 2
  br label %try
try:
  %old = phi i16 [ %first, %start ], [ %found, %try ]
  %own = call double @__mneme_cpu.widen16(i16 %old, i64 %mantissa)
  %sum = fadd double %own, %more
  %new = call i16 @__mneme_cpu.narrow16(double %sum, i32 0, i64 %mantissa, i64 %bias)
  %pair = cmpxchg ptr %at, i16 %old, i16 %new acq_rel acquire
  %found = extractvalue { i16, i1 } %pair, 0
  %done = extractvalue { i16, i1 } %pair, 1
  br i1 %done, label %end, label %try
end:
  ret i16 %old
}

define i16 @__mneme_cpu.narrow16(double %value, i32 %mode, i64 %mantissa, i64 %bias) alwaysinline nounwind {
  %bits = bitcast double %value to i64
  %negative = icmp slt i64 %bits, 0
  %field = lshr i64 %bits, 52
  %exponent = and i64 %field, 2047
  %fraction = and i64 %bits, 4503599627370495
  %special = icmp eq i64 %exponent, 2047
  %tiny = icmp eq i64 %exponent, 0
  %implicit = or i64 %fraction, 4503599627370496
  %significand = select i1 %tiny, i64 %fraction, i64 %implicit
  %power = sub i64 %exponent, 1023
  %least = sub i64 1, %bias
  %below = sub i64 %least, %power
  %extra = call i64 @llvm.smax.i64(i64 %below, i64 0)
  %spare = sub i64 52, %mantissa
  %unclamped = add i64 %spare, %extra
  %shift = call i64 @llvm.smin.i64(i64 %unclamped, i64 54)
  %kept = lshr i64 %significand, %shift
  %unit = shl i64 1, %shift
  %mask = sub i64 %unit, 1
  %lost = and i64 %significand, %mask
  %half = lshr i64 %unit, 1
  %over = icmp ugt i64 %lost, %half
  %tie = icmp eq i64 %lost, %half
  %odd = trunc i64 %kept to i1
  %even.up = and i1 %tie, %odd
  %nearest = or i1 %over, %even.up
  %inexact = icmp ne i64 %lost, 0
  %positive = xor i1 %negative, true
  %is.nearest = icmp eq i32 %mode, 0
  %is.zero = icmp eq i32 %mode, 1
  %is.down = icmp eq i32 %mode, 2
  %outward = select i1 %is.down, i1 %negative, i1 %positive
  %directed = select i1 %is.zero, i1 false, i1 %outward
  %directed.up = and i1 %directed, %inexact
  %up = select i1 %is.nearest, i1 %nearest, i1 %directed.up
  %step = zext i1 %up to i64
  %rounded = add i64 %kept, %step
  %biased = add i64 %power, %bias
  %less = sub i64 %biased, 1
  %base = shl i64 %less, %mantissa
  %subnormal = icmp sgt i64 %below, 0
  %start = select i1 %subnormal, i64 0, i64 %base
  %finite = add i64 %start, %rounded
  %width = sub i64 15, %mantissa
  %exponents = shl i64 1, %width
  %top = sub i64 %exponents, 1
  %infinity = shl i64 %top, %mantissa
  %greatest = sub i64 %infinity, 1
  %overflows = icmp sge i64 %finite, %infinity
  %to.infinity = select i1 %is.nearest, i1 true, i1 %directed
  %overflow = select i1 %to.infinity, i64 %infinity, i64 %greatest
  %number = select i1 %overflows, i64 %overflow, i64 %finite
  %value.or.infinity = select i1 %special, i64 %infinity, i64 %number
  %sign = select i1 %negative, i64 32768, i64 0
  %signed = or i64 %value.or.infinity, %sign
  %nan = fcmp uno double %value, %value
  %result = select i1 %nan, i64 32767, i64 %signed
  %narrow = trunc i64 %result to i16
  ret i16 %narrow
}

define void @__mneme_cpu.failed_assertion(ptr %message, ptr %file, i32 %line, ptr %function) alwaysinline nounwind {
  call void @__mneme_cpu_assert(ptr %message, ptr %file, i32 %line, ptr %function)
  unreachable
}

attributes #0 = { nocallback nofree nosync nounwind willreturn memory(none) }
attributes #1 = { convergent nounwind }
attributes #2 = { nounwind }
attributes #3 = { cold noreturn nounwind }

!0 = !{}
