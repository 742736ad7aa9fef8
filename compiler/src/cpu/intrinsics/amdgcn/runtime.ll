; Additional imports of modules for AMD GPUs, and helpers for their generated bodies.

; Lanes are grouped by the call sites of these functions, so calls must be neither merged nor duplicated.
declare i64 @__mneme_cpu_wave_ballot(i32) convergent nomerge nounwind
declare i64 @__mneme_cpu_wave_exchange(i32, i32) convergent nomerge nounwind
declare i64 @__mneme_cpu_wave_permute(i32, i32) convergent nomerge nounwind
declare ptr @__mneme_cpu_implicit_arguments() nocallback nofree nosync nounwind willreturn memory(none)
declare ptr @__mneme_cpu_dispatch_packet() nocallback nofree nosync nounwind willreturn memory(none)
declare i64 @__mneme_cpu_ockl_printf_begin(i64) nounwind
declare i64 @__mneme_cpu_ockl_fprintf_stderr_begin() nounwind
declare i64 @__mneme_cpu_ockl_printf_append_args(i64, i32, i64, i64, i64, i64, i64, i64, i64, i32) nounwind
declare i64 @__mneme_cpu_ockl_printf_append_string_n(i64, ptr, i64, i32) nounwind

; The empty assembly is convergent, which keeps later passes from duplicating the block.
define i64 @__mneme_cpu.ballot(i32 %predicate) alwaysinline nounwind {
  call void asm sideeffect "", ""() convergent nomerge nounwind
  %mask = call i64 @__mneme_cpu_wave_ballot(i32 %predicate) convergent nomerge nounwind
  ret i64 %mask
}

define i64 @__mneme_cpu.exchange(i32 %value, i32 %source) alwaysinline nounwind {
  call void asm sideeffect "", ""() convergent nomerge nounwind
  %pair = call i64 @__mneme_cpu_wave_exchange(i32 %value, i32 %source) convergent nomerge nounwind
  ret i64 %pair
}

define i64 @__mneme_cpu.send(i32 %value, i32 %destination) alwaysinline nounwind {
  call void asm sideeffect "", ""() convergent nomerge nounwind
  %pair = call i64 @__mneme_cpu_wave_permute(i32 %value, i32 %destination) convergent nomerge nounwind
  ret i64 %pair
}

define i32 @__mneme_cpu.first_lane() alwaysinline nounwind {
  %mask = call i64 @__mneme_cpu.ballot(i32 1)
  %first = call i64 @llvm.cttz.i64(i64 %mask, i1 false)
  %lane = trunc i64 %first to i32
  ret i32 %lane
}

; Lane numbers wrap at the wave size.
define i32 @__mneme_cpu.wrapped_lane(i32 %lane) alwaysinline nounwind {
  %size = call i32 @__mneme_cpu.wave_size()
  %last = sub i32 %size, 1
  %wrapped = and i32 %lane, %last
  ret i32 %wrapped
}

define i32 @__mneme_cpu.read_lane(i32 %value, i32 %lane) alwaysinline nounwind {
  %source = call i32 @__mneme_cpu.wrapped_lane(i32 %lane)
  %pair = call i64 @__mneme_cpu.exchange(i32 %value, i32 %source)
  %result = trunc i64 %pair to i32
  ret i32 %result
}

; Addresses of lanes are in bytes, four per lane.
define i32 @__mneme_cpu.bpermute(i32 %address, i32 %value) alwaysinline nounwind {
  %lane = lshr i32 %address, 2
  %result = call i32 @__mneme_cpu.read_lane(i32 %value, i32 %lane)
  ret i32 %result
}

define i32 @__mneme_cpu.permute_lanes(i32 %address, i32 %value) alwaysinline nounwind {
  %lane = lshr i32 %address, 2
  %destination = call i32 @__mneme_cpu.wrapped_lane(i32 %lane)
  %pair = call i64 @__mneme_cpu.send(i32 %value, i32 %destination)
  %result = trunc i64 %pair to i32
  ret i32 %result
}

define i32 @__mneme_cpu.mbcnt_lo(i32 %mask, i32 %base) alwaysinline nounwind {
  %lane = call i32 @__mneme_cpu.context(i64 48)
  %upper = icmp uge i32 %lane, 32
  %position = and i32 %lane, 31
  %own = shl i32 1, %position
  %lower = sub i32 %own, 1
  %below = select i1 %upper, i32 -1, i32 %lower
  %counted = and i32 %mask, %below
  %count = call i32 @llvm.ctpop.i32(i32 %counted)
  %result = add i32 %base, %count
  ret i32 %result
}

define i32 @__mneme_cpu.mbcnt_hi(i32 %mask, i32 %base) alwaysinline nounwind {
  %lane = call i32 @__mneme_cpu.context(i64 48)
  %upper = icmp uge i32 %lane, 32
  %position = and i32 %lane, 31
  %own = shl i32 1, %position
  %lower = sub i32 %own, 1
  %below = select i1 %upper, i32 %lower, i32 0
  %counted = and i32 %mask, %below
  %count = call i32 @llvm.ctpop.i32(i32 %counted)
  %result = add i32 %base, %count
  ret i32 %result
}

; The lane from which a lane reads according to `dpp_ctrl`, or -1.
define i32 @__mneme_cpu.dpp_source(i32 %control, i32 %lane) alwaysinline nounwind {
  %place = and i32 %lane, 15
  %row = and i32 %lane, -16
  %count = and i32 %control, 15
  %kind = lshr i32 %control, 4
  switch i32 %kind, label %other [
    i32 16, label %row.shl
    i32 17, label %row.shr
    i32 18, label %row.ror
    i32 19, label %wave
    i32 20, label %mirror
    i32 21, label %share
    i32 22, label %xmask
  ]
other:
  %is.quad = icmp ult i32 %control, 256
  %in.quad = and i32 %lane, 3
  %shift = shl i32 %in.quad, 1
  %moved = lshr i32 %control, %shift
  %chosen = and i32 %moved, 3
  %quad = and i32 %lane, -4
  %quad.source = or i32 %quad, %chosen
  %quad.or.none = select i1 %is.quad, i32 %quad.source, i32 -1
  ret i32 %quad.or.none
row.shl:
  %up = add i32 %place, %count
  %up.inside = icmp ult i32 %up, 16
  %up.source = add i32 %row, %up
  %up.or.none = select i1 %up.inside, i32 %up.source, i32 -1
  ret i32 %up.or.none
row.shr:
  %down = sub i32 %place, %count
  %down.inside = icmp sge i32 %down, 0
  %down.source = add i32 %row, %down
  %down.or.none = select i1 %down.inside, i32 %down.source, i32 -1
  ret i32 %down.or.none
row.ror:
  %back = sub i32 %place, %count
  %round = and i32 %back, 15
  %round.source = or i32 %row, %round
  ret i32 %round.source
wave:
  %size = call i32 @__mneme_cpu.wave_size()
  %last = sub i32 %size, 1
  %next = add i32 %lane, 1
  %next.inside = icmp ult i32 %next, %size
  %shl = select i1 %next.inside, i32 %next, i32 -1
  %rol = and i32 %next, %last
  %shr = sub i32 %lane, 1
  %ror = and i32 %shr, %last
  %is.shl = icmp eq i32 %count, 0
  %is.rol = icmp eq i32 %count, 4
  %is.shr = icmp eq i32 %count, 8
  %is.ror = icmp eq i32 %count, 12
  %wave.0 = select i1 %is.ror, i32 %ror, i32 -1
  %wave.1 = select i1 %is.shr, i32 %shr, i32 %wave.0
  %wave.2 = select i1 %is.rol, i32 %rol, i32 %wave.1
  %wave.3 = select i1 %is.shl, i32 %shl, i32 %wave.2
  ret i32 %wave.3
mirror:
  %reversed = xor i32 %lane, 15
  %half.reversed = xor i32 %lane, 7
  %row.before = sub i32 %row, 1
  %upper = icmp uge i32 %lane, 32
  %middle = select i1 %upper, i32 31, i32 -1
  %is.mirror = icmp eq i32 %count, 0
  %is.half = icmp eq i32 %count, 1
  %is.15 = icmp eq i32 %count, 2
  %is.31 = icmp eq i32 %count, 3
  %mirror.0 = select i1 %is.31, i32 %middle, i32 -1
  %mirror.1 = select i1 %is.15, i32 %row.before, i32 %mirror.0
  %mirror.2 = select i1 %is.half, i32 %half.reversed, i32 %mirror.1
  %mirror.3 = select i1 %is.mirror, i32 %reversed, i32 %mirror.2
  ret i32 %mirror.3
share:
  %shared = or i32 %row, %count
  ret i32 %shared
xmask:
  %flipped = xor i32 %lane, %count
  ret i32 %flipped
}

; Data-parallel primitives: each lane reads another of its row or wave. If that one is missing, the lane gets zero or keeps the old value. If a mask excludes the lane, it keeps the old value.
define i32 @__mneme_cpu.dpp(i32 %old, i32 %value, i32 %control, i32 %rows, i32 %banks, i1 %zero) alwaysinline nounwind {
  %lane = call i32 @__mneme_cpu.context(i64 48)
  %source = call i32 @__mneme_cpu.dpp_source(i32 %control, i32 %lane)
  %known = icmp ne i32 %source, -1
  %asked = select i1 %known, i32 %source, i32 %lane
  %pair = call i64 @__mneme_cpu.exchange(i32 %value, i32 %asked)
  %word = trunc i64 %pair to i32
  %flag = lshr i64 %pair, 32
  %there = trunc i64 %flag to i1
  %valid = and i1 %known, %there
  %fallback = select i1 %zero, i32 0, i32 %old
  %found = select i1 %valid, i32 %word, i32 %fallback
  %row = lshr i32 %lane, 4
  %row.bit = lshr i32 %rows, %row
  %row.on = trunc i32 %row.bit to i1
  %quarter = lshr i32 %lane, 2
  %bank = and i32 %quarter, 3
  %bank.bit = lshr i32 %banks, %bank
  %bank.on = trunc i32 %bank.bit to i1
  %on = and i1 %row.on, %bank.on
  %result = select i1 %on, i32 %found, i32 %old
  ret i32 %result
}

; The selectors have three bits for each of eight lanes.
define i32 @__mneme_cpu.dpp8(i32 %value, i32 %selectors) alwaysinline nounwind {
  %lane = call i32 @__mneme_cpu.context(i64 48)
  %place = and i32 %lane, 7
  %shift = mul i32 %place, 3
  %moved = lshr i32 %selectors, %shift
  %chosen = and i32 %moved, 7
  %group = and i32 %lane, -8
  %source = or i32 %group, %chosen
  %pair = call i64 @__mneme_cpu.exchange(i32 %value, i32 %source)
  %result = trunc i64 %pair to i32
  ret i32 %result
}

; The two selectors have four bits for each lane of a row. They select from this row or, with 16, from the other row of the pair.
define i32 @__mneme_cpu.permlane(i32 %old, i32 %value, i32 %low, i32 %high, i32 %other, i1 %zero) alwaysinline nounwind {
  %lane = call i32 @__mneme_cpu.context(i64 48)
  %place = and i32 %lane, 15
  %upper = icmp uge i32 %place, 8
  %selectors = select i1 %upper, i32 %high, i32 %low
  %in.word = and i32 %place, 7
  %shift = shl i32 %in.word, 2
  %moved = lshr i32 %selectors, %shift
  %chosen = and i32 %moved, 15
  %own.row = and i32 %lane, -16
  %row = xor i32 %own.row, %other
  %source = or i32 %row, %chosen
  %pair = call i64 @__mneme_cpu.exchange(i32 %value, i32 %source)
  %word = trunc i64 %pair to i32
  %flag = lshr i64 %pair, 32
  %there = trunc i64 %flag to i1
  %fallback = select i1 %zero, i32 0, i32 %old
  %result = select i1 %there, i32 %word, i32 %fallback
  ret i32 %result
}

; The lane from which a lane reads according to the pattern of `ds_swizzle`, within its group of 32.
define i32 @__mneme_cpu.swizzle_source(i32 %pattern, i32 %lane) alwaysinline nounwind {
  %place = and i32 %lane, 31
  %half = and i32 %lane, 32
  %mask = and i32 %pattern, 31
  %is.fft = icmp uge i32 %pattern, 57344
  br i1 %is.fft, label %fft, label %not.fft
fft:
  %reversed.high = call i32 @llvm.bitreverse.i32(i32 %place)
  %reversed = lshr i32 %reversed.high, 27
  %levels = call i32 @llvm.ctpop.i32(i32 %mask)
  %butterfly = lshr i32 %reversed, %levels
  %kept = and i32 %place, %mask
  %fft.place = or i32 %butterfly, %kept
  %plain = icmp eq i32 %mask, 31
  %fft.chosen = select i1 %plain, i32 %place, i32 %fft.place
  %fft.source = or i32 %half, %fft.chosen
  ret i32 %fft.source
not.fft:
  %is.rotate = icmp uge i32 %pattern, 49152
  br i1 %is.rotate, label %rotate, label %not.rotate
rotate:
  %distance.high = lshr i32 %pattern, 5
  %distance = and i32 %distance.high, 31
  %opposite = sub i32 0, %distance
  %direction.high = lshr i32 %pattern, 10
  %direction = trunc i32 %direction.high to i1
  %step = select i1 %direction, i32 %opposite, i32 %distance
  %turned = add i32 %place, %step
  %moving = xor i32 %mask, 31
  %turned.part = and i32 %turned, %moving
  %fixed.part = and i32 %place, %mask
  %rotated = or i32 %turned.part, %fixed.part
  %rotate.source = or i32 %half, %rotated
  ret i32 %rotate.source
not.rotate:
  %is.quad = icmp uge i32 %pattern, 32768
  br i1 %is.quad, label %quad, label %bits
quad:
  %in.quad = and i32 %lane, 3
  %shift = shl i32 %in.quad, 1
  %moved = lshr i32 %pattern, %shift
  %chosen = and i32 %moved, 3
  %first = and i32 %lane, -4
  %quad.source = or i32 %first, %chosen
  ret i32 %quad.source
bits:
  %or.high = lshr i32 %pattern, 5
  %or.mask = and i32 %or.high, 31
  %xor.high = lshr i32 %pattern, 10
  %xor.mask = and i32 %xor.high, 31
  %anded = and i32 %place, %mask
  %ored = or i32 %anded, %or.mask
  %xored = xor i32 %ored, %xor.mask
  %bits.source = or i32 %half, %xored
  ret i32 %bits.source
}

define i32 @__mneme_cpu.swizzle(i32 %value, i32 %pattern) alwaysinline nounwind {
  %lane = call i32 @__mneme_cpu.context(i64 48)
  %source = call i32 @__mneme_cpu.swizzle_source(i32 %pattern, i32 %lane)
  %pair = call i64 @__mneme_cpu.exchange(i32 %value, i32 %source)
  %result = trunc i64 %pair to i32
  ret i32 %result
}

; Ticks at 100 MHz, the rate of AMD's steady clock.
define i64 @__mneme_cpu.steady_clock() alwaysinline nounwind {
  %nanoseconds = call i64 @__mneme_cpu_clock()
  %ticks = udiv i64 %nanoseconds, 10
  ret i64 %ticks
}

; `v_perm_b32`: each byte of the selector selects a byte of {a, b}, the sign of a half of b or a, 0, or 255.
define i32 @__mneme_cpu.amd_byte(i64 %bytes, i32 %selector, i32 %shift) alwaysinline nounwind {
  %moved.selector = lshr i32 %selector, %shift
  %number = and i32 %moved.selector, 255
  %index = and i32 %number, 7
  %bits = shl i32 %index, 3
  %wide = zext i32 %bits to i64
  %moved = lshr i64 %bytes, %wide
  %byte = trunc i64 %moved to i8
  %which = and i32 %number, 3
  %halves = shl i32 %which, 4
  %top = add i32 %halves, 15
  %top.wide = zext i32 %top to i64
  %at.sign = lshr i64 %bytes, %top.wide
  %sign = trunc i64 %at.sign to i1
  %signs = sext i1 %sign to i8
  %is.byte = icmp ult i32 %number, 8
  %is.sign = icmp ult i32 %number, 12
  %is.zero = icmp eq i32 %number, 12
  %ones = select i1 %is.zero, i8 0, i8 -1
  %sign.or.ones = select i1 %is.sign, i8 %signs, i8 %ones
  %chosen = select i1 %is.byte, i8 %byte, i8 %sign.or.ones
  %place = zext i8 %chosen to i32
  %result = shl i32 %place, %shift
  ret i32 %result
}

define i32 @__mneme_cpu.amd_perm(i32 %a, i32 %b, i32 %selector) alwaysinline nounwind {
  %low = zext i32 %b to i64
  %wide = zext i32 %a to i64
  %high = shl i64 %wide, 32
  %bytes = or i64 %low, %high
  %part0 = call i32 @__mneme_cpu.amd_byte(i64 %bytes, i32 %selector, i32 0)
  %part1 = call i32 @__mneme_cpu.amd_byte(i64 %bytes, i32 %selector, i32 8)
  %part2 = call i32 @__mneme_cpu.amd_byte(i64 %bytes, i32 %selector, i32 16)
  %part3 = call i32 @__mneme_cpu.amd_byte(i64 %bytes, i32 %selector, i32 24)
  %part4 = or i32 %part0, %part1
  %part5 = or i32 %part2, %part3
  %part6 = or i32 %part4, %part5
  ret i32 %part6
}

define double @__mneme_cpu.radians(double %turns) alwaysinline nounwind {
  %whole = call double @llvm.floor.f64(double %turns)
  %rest = fsub double %turns, %whole
  %radians = fmul double %rest, 0x401921FB54442D18
  ret double %radians
}

define double @__mneme_cpu.sin_of_turns(double %turns) alwaysinline nounwind {
  %radians = call double @__mneme_cpu.radians(double %turns)
  %value = call double @llvm.sin.f64(double %radians)
  ret double %value
}

define double @__mneme_cpu.cos_of_turns(double %turns) alwaysinline nounwind {
  %radians = call double @__mneme_cpu.radians(double %turns)
  %value = call double @llvm.cos.f64(double %radians)
  ret double %value
}

define i1 @__mneme_cpu.is_zero_product(float %a, float %b) alwaysinline nounwind {
  %a.zero = fcmp oeq float %a, 0.0
  %b.zero = fcmp oeq float %b, 0.0
  %zero = or i1 %a.zero, %b.zero
  ret i1 %zero
}

; The first 1201 fractional bits of 2/pi, beginning with the highest bit of the first word.
@__mneme_cpu.two_over_pi_bits = private unnamed_addr constant [20 x i64] [i64 -6703182060581546711, i64 -277156292786332224, i64 -2638381946312093631, i64 -121206125134887583, i64 -5249950069107600672, i64 452944820249399836, i64 -135693905287338178, i64 -1692731182770600828, i64 -1613291254968254911, i64 4148332274289687028, i64 -7168499653074671557, i64 2303758334597371919, i64 -1211730484530615009, i64 7869616827067468215, i64 5712322887342352941, i64 8441921394348257659, i64 4397547296490951402, i64 7780917995555872008, i64 6197850593633697792, i64 0]

define i64 @__mneme_cpu.two_over_pi_word(i32 %index) alwaysinline nounwind {
  %inside = icmp ult i32 %index, 20
  %safe = select i1 %inside, i32 %index, i32 19
  %place = getelementptr inbounds [20 x i64], ptr @__mneme_cpu.two_over_pi_bits, i32 0, i32 %safe
  %word = load i64, ptr %place, align 8
  %result = select i1 %inside, i64 %word, i64 0
  ret i64 %result
}

; `v_trig_preop_f64`: a segment of 53 bits of 2/pi, beginning with those that matter for a number of this exponent.
define double @__mneme_cpu.two_over_pi(double %value, i32 %segment) alwaysinline nounwind {
  %bits = bitcast double %value to i64
  %field = lshr i64 %bits, 52
  %narrow = trunc i64 %field to i32
  %exponent = and i32 %narrow, 2047
  %wrapped = and i32 %segment, 31
  %segments = mul i32 %wrapped, 53
  %large = icmp ugt i32 %exponent, 1077
  %over = sub i32 %exponent, 1077
  %excess = select i1 %large, i32 %over, i32 0
  %shift = add i32 %segments, %excess
  %index = lshr i32 %shift, 6
  %after = add i32 %index, 1
  %high = call i64 @__mneme_cpu.two_over_pi_word(i32 %index)
  %low = call i64 @__mneme_cpu.two_over_pi_word(i32 %after)
  %offset = and i32 %shift, 63
  %offset.wide = zext i32 %offset to i64
  %window = call i64 @llvm.fshl.i64(i64 %high, i64 %low, i64 %offset.wide)
  %leading = lshr i64 %window, 11
  %number = uitofp i64 %leading to double
  %below = sub i32 -53, %shift
  %huge = icmp uge i32 %exponent, 1968
  %raised = select i1 %huge, i32 128, i32 0
  %scale = add i32 %below, %raised
  %result = call double @llvm.ldexp.f64.i32(double %number, i32 %scale)
  ret double %result
}

; A 32-bit pointer as an integer: the offset in the block's shared memory, all ones for null.
define i32 @__mneme_cpu.shared_to_int(ptr addrspace(3) %pointer) alwaysinline nounwind {
  %shared = call ptr addrspace(3) @__mneme_cpu.shared(i64 0)
  %base = ptrtoint ptr addrspace(3) %shared to i64
  %address = ptrtoint ptr addrspace(3) %pointer to i64
  %distance = sub i64 %address, %base
  %offset = trunc i64 %distance to i32
  %null = icmp eq i64 %address, 0
  %number = select i1 %null, i32 -1, i32 %offset
  ret i32 %number
}

define ptr addrspace(3) @__mneme_cpu.int_to_shared(i32 %number) alwaysinline nounwind {
  %shared = call ptr addrspace(3) @__mneme_cpu.shared(i64 0)
  %address = getelementptr i8, ptr addrspace(3) %shared, i32 %number
  %null = icmp eq i32 %number, -1
  %pointer = select i1 %null, ptr addrspace(3) null, ptr addrspace(3) %address
  ret ptr addrspace(3) %pointer
}

; The low half of the address of a thread's own variable. It suffices because stacks are smaller than 4 GiB.
define i32 @__mneme_cpu.private_to_int(ptr addrspace(5) %pointer) alwaysinline nounwind {
  %address = ptrtoint ptr addrspace(5) %pointer to i64
  %low = trunc i64 %address to i32
  %null = icmp eq i64 %address, 0
  %number = select i1 %null, i32 -1, i32 %low
  ret i32 %number
}

define ptr addrspace(5) @__mneme_cpu.int_to_private(i32 %number) alwaysinline nounwind {
  %frame = call ptr @llvm.frameaddress.p0(i32 0)
  %here = ptrtoint ptr %frame to i64
  %here.low = trunc i64 %here to i32
  %difference = sub i32 %number, %here.low
  %distance = sext i32 %difference to i64
  %address = add i64 %here, %distance
  %null = icmp eq i32 %number, -1
  %chosen = select i1 %null, i64 0, i64 %address
  %pointer = inttoptr i64 %chosen to ptr addrspace(5)
  ret ptr addrspace(5) %pointer
}
