; What follows the accesses to shared memory and the synchronisation of threads, in kernels that have shared memory. The rules are in
; docs/guides/check.md.
;
; Shadow of four bytes of shared memory, 40 bytes: u64 last write, u64 last read, u32 sites of both, u32 bits of the bytes written ever, 4
; bytes that are free, u64 the value last written below whose it is: the low 22 bits of the clock, and the thread. Bit 31 of the bytes written
; stands in the first word of a variable where something that is not watched may have written the variable, bit 30 in the block's first word
; where it may have written anything.
; A write or read: bit 63 there was one, 62 atomic, 58 to 61 which bytes, 48 to 57 thread, 0 to 30 the thread's clock. Of writes: 31 the
; value is not known. Of reads, which are kept where others of the same bytes follow: 47 a thread of another warp
; has read them since the last barrier, 46 another lane of the warp has at the same clock, 32 to 41 that thread.
;
; Clock of a thread: bit 31 it has synchronised in a way that is not followed, 11 to 30 barriers of the whole block that it passed, 0 to
; 10 warp operations since.

declare i64 @llvm.umax.i64(i64, i64)
declare i64 @llvm.umin.i64(i64, i64)

; How many threads a block has.
define internal i32 @__mneme_threads() alwaysinline nounwind {
  %size = call { i32, i32, i32 } @__mneme_block_size()
  %width = extractvalue { i32, i32, i32 } %size, 0
  %height = extractvalue { i32, i32, i32 } %size, 1
  %depth = extractvalue { i32, i32, i32 } %size, 2
  %area = mul i32 %width, %height
  %threads = mul i32 %area, %depth
  ret i32 %threads
}

; The warp of a thread.
define internal i64 @__mneme_warp(i64 %thread) alwaysinline nounwind {
  %bits = call i32 @__mneme_lane_bits()
  %wide = zext i32 %bits to i64
  %warp = lshr i64 %thread, %wide
  ret i64 %warp
}

; Where the clocks of the window's block begin, and where the running thread's is.
define internal ptr addrspace(1) @__mneme_clocks(i64 %index) alwaysinline nounwind {
  %threads = call i32 @__mneme_threads()
  %more = add i32 %threads, 33
  %slots = and i32 %more, -2
  %wide.slots = zext i32 %slots to i64
  %before = mul i64 %index, %wide.slots
  %offset = shl i64 %before, 2
  %start = call i64 @__mneme_word(i64 6)
  %address = add i64 %start, %offset
  %pointer = inttoptr i64 %address to ptr addrspace(1)
  ret ptr addrspace(1) %pointer
}

; The clock of the warp comes after those of the threads, of which there is an even number.
define internal ptr addrspace(1) @__mneme_warp_clock(i64 %index) alwaysinline nounwind {
  %clocks = call ptr addrspace(1) @__mneme_clocks(i64 %index)
  %threads = call i32 @__mneme_threads()
  %odd = add i32 %threads, 1
  %even = and i32 %odd, -2
  %first = zext i32 %even to i64
  %thread = call i32 @__mneme_thread()
  %wide = zext i32 %thread to i64
  %warp = call i64 @__mneme_warp(i64 %wide)
  %slot = add i64 %first, %warp
  %place = getelementptr i32, ptr addrspace(1) %clocks, i64 %slot
  ret ptr addrspace(1) %place
}

define internal ptr addrspace(1) @__mneme_clock(i64 %index) alwaysinline nounwind {
  %clocks = call ptr addrspace(1) @__mneme_clocks(i64 %index)
  %thread = call i32 @__mneme_thread()
  %wide = zext i32 %thread to i64
  %place = getelementptr i32, ptr addrspace(1) %clocks, i64 %wide
  ret ptr addrspace(1) %place
}

; After a barrier of the whole block. There are no more than 2^20 - 1; from then on the thread is not compared.
define void @__mneme_barrier() noinline nounwind {
entry:
  %index = call i64 @__mneme_window()
  %outside = icmp eq i64 %index, -1
  br i1 %outside, label %done, label %pass

pass:
  %place = call ptr addrspace(1) @__mneme_clock(i64 %index)
  %clock = load i32, ptr addrspace(1) %place, align 4
  %barriers = and i32 %clock, 2147481600
  %last = icmp eq i32 %barriers, 2147481600
  %next = add i32 %barriers, 2048
  %stuck = or i32 %clock, -2147483648
  %new = select i1 %last, i32 %stuck, i32 %next
  store i32 %new, ptr addrspace(1) %place, align 4
  br label %done

done:
  ret void
}

; At synchronisation that is not followed.
define void @__mneme_relax() noinline nounwind {
entry:
  %index = call i64 @__mneme_window()
  %outside = icmp eq i64 %index, -1
  br i1 %outside, label %done, label %mark

mark:
  %place = call ptr addrspace(1) @__mneme_clock(i64 %index)
  %clock = load i32, ptr addrspace(1) %place, align 4
  %new = or i32 %clock, -2147483648
  store i32 %new, ptr addrspace(1) %place, align 4
  br label %done

done:
  ret void
}

; Before and after an operation in which lanes of a warp wait for one another: everybody's clock is then above that of everybody who came.
define void @__mneme_warp_arrive() noinline nounwind {
entry:
  %index = call i64 @__mneme_window()
  %outside = icmp eq i64 %index, -1
  br i1 %outside, label %done, label %tell

tell:
  %place = call ptr addrspace(1) @__mneme_clock(i64 %index)
  %clock = load i32, ptr addrspace(1) %place, align 4
  %plain = and i32 %clock, 2147483647
  %cell = call ptr addrspace(1) @__mneme_warp_clock(i64 %index)
  %before = atomicrmw umax ptr addrspace(1) %cell, i32 %plain monotonic
  br label %done

done:
  ret void
}

define void @__mneme_warp_leave() noinline nounwind {
entry:
  %index = call i64 @__mneme_window()
  %outside = icmp eq i64 %index, -1
  br i1 %outside, label %done, label %inside

inside:
  %cell = call ptr addrspace(1) @__mneme_warp_clock(i64 %index)
  %greatest = load volatile i32, ptr addrspace(1) %cell, align 4
  %place = call ptr addrspace(1) @__mneme_clock(i64 %index)
  %clock = load i32, ptr addrspace(1) %place, align 4
  %operations = and i32 %greatest, 2047
  %last = icmp eq i32 %operations, 2047
  %next = add i32 %operations, 1
  %kept = and i32 %clock, -2048
  %advanced = or i32 %kept, %next
  %stuck = or i32 %clock, -2147483648
  %new = select i1 %last, i32 %stuck, i32 %advanced
  store i32 %new, ptr addrspace(1) %place, align 4
  br label %done

done:
  ret void
}

; Whether an earlier access and one of the running thread, now, touch the same bytes and nothing orders them. Where other lanes or warps
; made the same access, it does not matter that one of them was the running thread.
define internal i1 @__mneme_conflict(i64 %old, i64 %mask, i64 %thread, i64 %clock, i1 %lanes, i1 %warps) alwaysinline nounwind {
  %there = icmp slt i64 %old, 0
  %old.mask.up = lshr i64 %old, 58
  %common = and i64 %old.mask.up, %mask
  %overlap = icmp ne i64 %common, 0
  %old.thread.up = lshr i64 %old, 48
  %old.thread = and i64 %old.thread.up, 1023
  %another = icmp ne i64 %old.thread, %thread
  %several = or i1 %lanes, %warps
  %other = or i1 %another, %several
  %clocks = xor i64 %old, %clock
  %barriers = and i64 %clocks, 2147481600
  %same.interval = icmp eq i64 %barriers, 0
  %old.warp = call i64 @__mneme_warp(i64 %old.thread)
  %warp = call i64 @__mneme_warp(i64 %thread)
  %another.warp = icmp ne i64 %old.warp, %warp
  %other.warp = or i1 %another.warp, %warps
  %old.operations = and i64 %old, 2047
  %operations = and i64 %clock, 2047
  %not.after = icmp ule i64 %operations, %old.operations
  %unordered = or i1 %other.warp, %not.after
  %a = and i1 %there, %overlap
  %b = and i1 %other, %same.interval
  %c = and i1 %a, %b
  %conflict = and i1 %c, %unordered
  ret i1 %conflict
}

; What an access to four bytes has come to, which is one finding for all bytes of the access: 1 what it reads was never written, 2 a race;
; and of a race who the other is, its site above its thread.
define internal { i32, i64 } @__mneme_finding(i1 %unset, i1 %race, i64 %other) alwaysinline nounwind {
  %first = zext i1 %unset to i32
  %wide.race = zext i1 %race to i32
  %second = shl i32 %wide.race, 1
  %kinds = or i32 %first, %second
  %one = insertvalue { i32, i64 } poison, i32 %kinds, 0
  %two = insertvalue { i32, i64 } %one, i64 %other, 1
  ret { i32, i64 } %two
}

define internal i64 @__mneme_other(i64 %old, i64 %shift, i32 %old.site) alwaysinline nounwind {
  %thread.up = lshr i64 %old, %shift
  %thread = and i64 %thread.up, 1023
  %wide = zext i32 %old.site to i64
  %high = shl i64 %wide, 32
  %other = or i64 %high, %thread
  ret i64 %other
}

; Whose a value is: what is kept of thread and clock beside it.
define internal i64 @__mneme_tag(i64 %write) alwaysinline nounwind {
  %thread.up = lshr i64 %write, 26
  %thread = and i64 %thread.up, 4290772992
  %clock = and i64 %write, 4194303
  %tag = or i64 %thread, %clock
  ret i64 %tag
}

define internal { i32, i64 } @__mneme_shadow_write(ptr addrspace(1) %shadow, i64 %mask, i32 %site, i32 %flags, i64 %value, i64 %thread, i64 %clock) noinline nounwind {
entry:
  %read.place = getelementptr i8, ptr addrspace(1) %shadow, i64 8
  %write.site.place = getelementptr i8, ptr addrspace(1) %shadow, i64 16
  %read.site.place = getelementptr i8, ptr addrspace(1) %shadow, i64 20
  %written.place = getelementptr i8, ptr addrspace(1) %shadow, i64 24
  %narrow.mask = trunc i64 %mask to i32
  %written = atomicrmw or ptr addrspace(1) %written.place, i32 %narrow.mask monotonic
  %reads = and i32 %flags, 17
  %reading = icmp eq i32 %reads, 1
  %unwritten = xor i32 %written, -1
  %missing = and i32 %unwritten, %narrow.mask
  %is.missing = icmp ne i32 %missing, 0
  %unset = and i1 %reading, %is.missing
  %clock.bits = and i64 %clock, 2147483647
  %mask.bits = shl i64 %mask, 58
  %thread.bits = shl i64 %thread, 48
  %value.known = and i32 %flags, 8
  %known = icmp ne i32 %value.known, 0
  %value.bits = select i1 %known, i64 0, i64 2147483648
  %ordered.flag = and i32 %flags, 4
  %ordered = icmp ne i32 %ordered.flag, 0
  %m0 = or i64 %clock.bits, -9223372036854775808
  %m1 = or i64 %m0, %mask.bits
  %m2 = or i64 %m1, %thread.bits
  %m3 = or i64 %m2, %value.bits
  ; What a thread wrote plainly stays so if it goes on with an atomic access: others' atomic accesses meet both.
  %before = load volatile i64, ptr addrspace(1) %shadow, align 8
  %before.difference = xor i64 %before, %m2
  %before.same = and i64 %before.difference, -2147483649
  %before.plain = icmp eq i64 %before.same, 0
  %apart = xor i1 %before.plain, true
  %is.atomic = and i1 %ordered, %apart
  %atomic.bits = select i1 %is.atomic, i64 4611686018427387904, i64 0
  %mine = or i64 %m3, %atomic.bits
  ; The value goes first: whoever meets the write finds the value, or that of another thread, which it can tell.
  %value.place = getelementptr i8, ptr addrspace(1) %shadow, i64 32
  %tag = call i64 @__mneme_tag(i64 %mine)
  %tag.bits = shl i64 %tag, 32
  %tagged = or i64 %tag.bits, %value
  %old.tagged = atomicrmw xchg ptr addrspace(1) %value.place, i64 %tagged monotonic
  %old = atomicrmw xchg ptr addrspace(1) %shadow, i64 %mine monotonic
  %old.site = load volatile i32, ptr addrspace(1) %write.site.place, align 4
  %is.continued = and i1 %ordered, %before.plain
  %new.site = select i1 %is.continued, i32 %old.site, i32 %site
  store volatile i32 %new.site, ptr addrspace(1) %write.site.place, align 4
  %relaxed.bit = and i64 %clock, 2147483648
  %relaxed = icmp ne i64 %relaxed.bit, 0
  br i1 %relaxed, label %done, label %compare.write

compare.write:
  %clash = call i1 @__mneme_conflict(i64 %old, i64 %mask, i64 %thread, i64 %clock, i1 false, i1 false)
  ; The same value, written plainly both times, is what it is in whatever order; atomic accesses are made for this. If the other's value is
  ; not there yet, nothing can be said, and the other meets this one.
  %difference = xor i64 %old, %mine
  %kind.bits = and i64 %difference, 8935141662850547712
  %alike = icmp eq i64 %kind.bits, 0
  %old.tag = call i64 @__mneme_tag(i64 %old)
  %now.tagged = load volatile i64, ptr addrspace(1) %value.place, align 8
  %old.owner = lshr i64 %old.tagged, 32
  %now.owner = lshr i64 %now.tagged, 32
  %is.old = icmp eq i64 %old.owner, %old.tag
  %is.now = icmp eq i64 %now.owner, %old.tag
  %is.there = or i1 %is.old, %is.now
  %is.away = xor i1 %is.there, true
  %other.tagged = select i1 %is.old, i64 %old.tagged, i64 %now.tagged
  %value.difference = xor i64 %other.tagged, %value
  %narrow.difference = trunc i64 %value.difference to i32
  %is.equal = icmp eq i32 %narrow.difference, 0
  %equal = or i1 %is.equal, %is.away
  %comparable = and i1 %alike, %known
  %same = and i1 %comparable, %equal
  %old.atomic.bit = and i64 %old, 4611686018427387904
  %old.atomic = icmp ne i64 %old.atomic.bit, 0
  %both.atomic = and i1 %ordered, %old.atomic
  %harmless = or i1 %same, %both.atomic
  %harmful = xor i1 %harmless, true
  %race = and i1 %clash, %harmful
  br i1 %race, label %report.write, label %compare.read

report.write:
  %writer = call i64 @__mneme_other(i64 %old, i64 48, i32 %old.site)
  br label %done

compare.read:
  %read = load volatile i64, ptr addrspace(1) %read.place, align 8
  %lanes.bit = and i64 %read, 70368744177664
  %lanes = icmp ne i64 %lanes.bit, 0
  %warps.bit = and i64 %read, 140737488355328
  %warps = icmp ne i64 %warps.bit, 0
  %read.clash = call i1 @__mneme_conflict(i64 %read, i64 %mask, i64 %thread, i64 %clock, i1 %lanes, i1 %warps)
  ; A plain read beside an atomic write is how loops of compare-and-swap begin.
  %plain = xor i1 %ordered, true
  %read.race = and i1 %read.clash, %plain
  br i1 %read.race, label %report.read, label %done

report.read:
  %read.site = load volatile i32, ptr addrspace(1) %read.site.place, align 4
  %reader.up = lshr i64 %read, 48
  %reader = and i64 %reader.up, 1023
  %is.self = icmp eq i64 %reader, %thread
  %shift = select i1 %is.self, i64 32, i64 48
  %seen = call i64 @__mneme_other(i64 %read, i64 %shift, i32 %read.site)
  br label %done

done:
  %is.race = phi i1 [ false, %entry ], [ true, %report.write ], [ false, %compare.read ], [ true, %report.read ]
  %other = phi i64 [ 0, %entry ], [ %writer, %report.write ], [ 0, %compare.read ], [ %seen, %report.read ]
  %finding = call { i32, i64 } @__mneme_finding(i1 %unset, i1 %is.race, i64 %other)
  ret { i32, i64 } %finding
}

define internal { i32, i64 } @__mneme_shadow_read(ptr addrspace(1) %shadow, i64 %mask, i32 %site, i32 %flags, i64 %thread, i64 %clock) noinline nounwind {
entry:
  %read.place = getelementptr i8, ptr addrspace(1) %shadow, i64 8
  %write.site.place = getelementptr i8, ptr addrspace(1) %shadow, i64 16
  %read.site.place = getelementptr i8, ptr addrspace(1) %shadow, i64 20
  %written.place = getelementptr i8, ptr addrspace(1) %shadow, i64 24
  %narrow.mask = trunc i64 %mask to i32
  %written = load volatile i32, ptr addrspace(1) %written.place, align 4
  %padding.flag = and i32 %flags, 16
  %strict = icmp eq i32 %padding.flag, 0
  %unwritten = xor i32 %written, -1
  %missing = and i32 %unwritten, %narrow.mask
  %is.missing = icmp ne i32 %missing, 0
  %unset = and i1 %strict, %is.missing
  %old = load volatile i64, ptr addrspace(1) %read.place, align 8
  %clock.bits = and i64 %clock, 2147483647
  %mask.bits = shl i64 %mask, 58
  %thread.bits = shl i64 %thread, 48
  %m0 = or i64 %clock.bits, -9223372036854775808
  %m1 = or i64 %m0, %mask.bits
  %mine = or i64 %m1, %thread.bits
  ; A read of the same bytes by another thread that nothing has ordered since is kept, with word of this one: whoever writes them meets
  ; one that is not itself.
  %there = icmp slt i64 %old, 0
  %difference = xor i64 %old, %mine
  %mask.difference = and i64 %difference, 4323455642275676160
  %same.mask = icmp eq i64 %mask.difference, 0
  %interval.difference = and i64 %difference, 2147481600
  %same.interval = icmp eq i64 %interval.difference, 0
  %operations.difference = and i64 %difference, 2047
  %same.operations = icmp eq i64 %operations.difference, 0
  %thread.difference.up = lshr i64 %difference, 48
  %thread.difference = and i64 %thread.difference.up, 1023
  %warp.difference = call i64 @__mneme_warp(i64 %thread.difference)
  %other.warp = icmp ne i64 %warp.difference, 0
  %other.thread = icmp ne i64 %thread.difference, 0
  %old.warps.bit = and i64 %old, 140737488355328
  %old.warps = icmp ne i64 %old.warps.bit, 0
  %old.lanes.bit = and i64 %old, 70368744177664
  %old.lanes = icmp ne i64 %old.lanes.bit, 0
  %w0 = and i1 %there, %same.mask
  %like = and i1 %w0, %same.interval
  %more.warps = and i1 %like, %other.warp
  %kept.warps = and i1 %like, %old.warps
  %l0 = and i1 %like, %same.operations
  %more.lanes = and i1 %l0, %other.thread
  %kept.lanes = and i1 %l0, %old.lanes
  %warps.before = xor i1 %kept.warps, true
  %lanes.before = xor i1 %kept.lanes, true
  %add.warp = and i1 %more.warps, %warps.before
  %l1 = and i1 %more.lanes, %lanes.before
  %l2 = and i1 %l1, %warps.before
  %not.other.warp = xor i1 %other.warp, true
  %add.lane = and i1 %l2, %not.other.warp
  %add = or i1 %add.warp, %add.lane
  %kept.some = or i1 %kept.warps, %kept.lanes
  %keep = or i1 %kept.some, %add
  ; With the first thread, clock and site of the old one.
  %warp.bit = select i1 %add.warp, i64 140737488355328, i64 0
  %lane.bit = select i1 %add.lane, i64 70368744177664, i64 0
  %second = shl i64 %thread, 32
  %s0 = and i64 %old, -4393751543809
  %s1 = or i64 %s0, %second
  %s2 = or i64 %s1, %warp.bit
  %with = or i64 %s2, %lane.bit
  %kept = select i1 %add, i64 %with, i64 %old
  %new = select i1 %keep, i64 %kept, i64 %mine
  store volatile i64 %new, ptr addrspace(1) %read.place, align 8
  %old.read.site = load volatile i32, ptr addrspace(1) %read.site.place, align 4
  %new.site = select i1 %keep, i32 %old.read.site, i32 %site
  store volatile i32 %new.site, ptr addrspace(1) %read.site.place, align 4
  %relaxed.bit = and i64 %clock, 2147483648
  %relaxed = icmp ne i64 %relaxed.bit, 0
  br i1 %relaxed, label %done, label %compare

compare:
  %write = load volatile i64, ptr addrspace(1) %shadow, align 8
  %clash = call i1 @__mneme_conflict(i64 %write, i64 %mask, i64 %thread, i64 %clock, i1 false, i1 false)
  ; A plain read beside an atomic write is how loops of compare-and-swap begin.
  %atomic.bit = and i64 %write, 4611686018427387904
  %plain = icmp eq i64 %atomic.bit, 0
  %race = and i1 %clash, %plain
  br i1 %race, label %report.race, label %done

report.race:
  %write.site = load volatile i32, ptr addrspace(1) %write.site.place, align 4
  %writer = call i64 @__mneme_other(i64 %write, i64 48, i32 %write.site)
  br label %done

done:
  %is.race = phi i1 [ false, %entry ], [ false, %compare ], [ true, %report.race ]
  %other = phi i64 [ 0, %entry ], [ 0, %compare ], [ %writer, %report.race ]
  %finding = call { i32, i64 } @__mneme_finding(i1 %unset, i1 %is.race, i64 %other)
  ret { i32, i64 } %finding
}

; Bytes of a block's shared memory that have a shadow.
define internal i64 @__mneme_shadowed() alwaysinline nounwind {
  %stride = call i64 @__mneme_word(i64 5)
  %words = udiv i64 %stride, 40
  %bytes = shl i64 %words, 2
  ret i64 %bytes
}

; The bits of the bytes written for the word of shared memory at an offset, which has a shadow.
define internal ptr addrspace(1) @__mneme_written(i64 %index, i64 %at) alwaysinline nounwind {
  %shadows = call i64 @__mneme_word(i64 4)
  %stride = call i64 @__mneme_word(i64 5)
  %block.offset = mul i64 %index, %stride
  %block.shadow = add i64 %shadows, %block.offset
  %number = lshr i64 %at, 2
  %shadow.offset = mul i64 %number, 40
  %shadow.address = add i64 %block.shadow, %shadow.offset
  %place = add i64 %shadow.address, 24
  %pointer = inttoptr i64 %place to ptr addrspace(1)
  ret ptr addrspace(1) %pointer
}

; Marks that something that is not watched may have written the variable whose shadow begins there, or (-1) anything.
define internal void @__mneme_mark_unseen(i64 %variable) noinline nounwind {
entry:
  %index = call i64 @__mneme_window()
  %outside = icmp eq i64 %index, -1
  %is.known = icmp ne i64 %variable, -1
  %at = select i1 %is.known, i64 %variable, i64 0
  %bit = select i1 %is.known, i32 -2147483648, i32 1073741824
  %shadowed = call i64 @__mneme_shadowed()
  %beyond = icmp uge i64 %at, %shadowed
  %not = or i1 %outside, %beyond
  br i1 %not, label %done, label %look

look:
  %place = call ptr addrspace(1) @__mneme_written(i64 %index, i64 %at)
  %before = load volatile i32, ptr addrspace(1) %place, align 4
  %old = and i32 %before, %bit
  %is.new = icmp eq i32 %old, 0
  br i1 %is.new, label %mark, label %done

mark:
  %last = atomicrmw or ptr addrspace(1) %place, i32 %bit monotonic
  br label %done

done:
  ret void
}

; Before an instruction that is not watched and may write shared memory: at this address.
define void @__mneme_unseen(ptr %place) noinline nounwind {
entry:
  %is.shared = call i1 @__mneme_is_shared(ptr %place)
  br i1 %is.shared, label %shared, label %done

shared:
  %address = ptrtoint ptr %place to i64
  %dynamic = call i64 @__mneme_word(i64 9)
  %object = call { i64, i64, i64 } @__mneme_shared_object(i64 %address, i64 %dynamic)
  %variable = extractvalue { i64, i64, i64 } %object, 2
  call void @__mneme_mark_unseen(i64 %variable)
  br label %done

done:
  ret void
}

define void @__mneme_unseen_anywhere() noinline nounwind {
  call void @__mneme_mark_unseen(i64 -1)
  ret void
}

; Whether something that is not watched may have written a variable by now.
define internal i1 @__mneme_is_unseen(i64 %index, i64 %variable) noinline nounwind {
  %own.place = call ptr addrspace(1) @__mneme_written(i64 %index, i64 %variable)
  %own = load volatile i32, ptr addrspace(1) %own.place, align 4
  %own.bit = and i32 %own, -2147483648
  %all.place = call ptr addrspace(1) @__mneme_written(i64 %index, i64 0)
  %all = load volatile i32, ptr addrspace(1) %all.place, align 4
  %all.bit = and i32 %all, 1073741824
  %bits = or i32 %own.bit, %all.bit
  %is = icmp ne i32 %bits, 0
  ret i1 %is
}

; Follows an access to bytes of shared memory, at an offset of a variable whose shadow begins there.
define internal void @__mneme_track(i64 %variable, i64 %offset, i64 %bytes, i32 %site, i32 %flags, i64 %value, i64 %address) noinline nounwind {
entry:
  %index = call i64 @__mneme_window()
  %outside = icmp eq i64 %index, -1
  %at = add i64 %variable, %offset
  %end = add i64 %at, %bytes
  %stride = call i64 @__mneme_word(i64 5)
  %shadowed = call i64 @__mneme_shadowed()
  %beyond = icmp ugt i64 %end, %shadowed
  %empty = icmp eq i64 %bytes, 0
  %no = or i1 %outside, %beyond
  %not = or i1 %no, %empty
  br i1 %not, label %done, label %start

start:
  %shadows = call i64 @__mneme_word(i64 4)
  %block.offset = mul i64 %index, %stride
  %block.shadow = add i64 %shadows, %block.offset
  %clock.place = call ptr addrspace(1) @__mneme_clock(i64 %index)
  %clock.now = load i32, ptr addrspace(1) %clock.place, align 4
  %ordered.flag = and i32 %flags, 4
  %ordered = icmp ne i32 %ordered.flag, 0
  %marked = or i32 %clock.now, -2147483648
  %clock.new = select i1 %ordered, i32 %marked, i32 %clock.now
  store i32 %clock.new, ptr addrspace(1) %clock.place, align 4
  ; What comes before orders the access itself, if anything does.
  %clock = zext i32 %clock.now to i64
  %thread.number = call i32 @__mneme_thread()
  %thread = zext i32 %thread.number to i64
  %writes.flag = and i32 %flags, 2
  %writes = icmp ne i32 %writes.flag, 0
  %first = lshr i64 %at, 2
  %last.byte = sub i64 %end, 1
  %last = lshr i64 %last.byte, 2
  br label %word

word:
  %number = phi i64 [ %first, %start ], [ %next, %behind ]
  %found = phi i32 [ 0, %start ], [ %found.now, %behind ]
  %other = phi i64 [ 0, %start ], [ %other.now, %behind ]
  %word.start = shl i64 %number, 2
  %word.end = add i64 %word.start, 4
  %from = call i64 @llvm.umax.i64(i64 %at, i64 %word.start)
  %to = call i64 @llvm.umin.i64(i64 %end, i64 %word.end)
  %low = sub i64 %from, %word.start
  %high = sub i64 %to, %word.start
  %high.bit = shl i64 1, %high
  %low.bit = shl i64 1, %low
  %mask = sub i64 %high.bit, %low.bit
  %shadow.offset = mul i64 %number, 40
  %shadow.address = add i64 %block.shadow, %shadow.offset
  %shadow = inttoptr i64 %shadow.address to ptr addrspace(1)
  %into = sub i64 %from, %at
  br i1 %writes, label %write, label %read

write:
  %value.bits = shl i64 %into, 3
  %few.bits = and i64 %value.bits, 63
  %moved = lshr i64 %value, %few.bits
  %word.value = and i64 %moved, 4294967295
  %written = call { i32, i64 } @__mneme_shadow_write(ptr addrspace(1) %shadow, i64 %mask, i32 %site, i32 %flags, i64 %word.value, i64 %thread, i64 %clock)
  br label %behind

read:
  %been.read = call { i32, i64 } @__mneme_shadow_read(ptr addrspace(1) %shadow, i64 %mask, i32 %site, i32 %flags, i64 %thread, i64 %clock)
  br label %behind

behind:
  %finding = phi { i32, i64 } [ %written, %write ], [ %been.read, %read ]
  %kinds = extractvalue { i32, i64 } %finding, 0
  %found.now = or i32 %found, %kinds
  ; The other of the first race.
  %raced = icmp ugt i32 %found, 1
  %this.other = extractvalue { i32, i64 } %finding, 1
  %other.now = select i1 %raced, i64 %other, i64 %this.other
  %next = add i64 %number, 1
  %more = icmp ule i64 %next, %last
  br i1 %more, label %word, label %tell

tell:
  %unset.bit = and i32 %found.now, 1
  %unset = icmp ne i32 %unset.bit, 0
  br i1 %unset, label %look.unseen, label %tell.race

look.unseen:
  %unseen = call i1 @__mneme_is_unseen(i64 %index, i64 %variable)
  br i1 %unseen, label %tell.race, label %report.unset

report.unset:
  call void @__mneme_report(i32 1, i32 %site, i64 %address, i64 %bytes, i64 0)
  br label %tell.race

tell.race:
  %race = icmp ugt i32 %found.now, 1
  br i1 %race, label %report.race, label %done

report.race:
  call void @__mneme_report(i32 2, i32 %site, i64 %address, i64 %bytes, i64 %other.now)
  br label %done

done:
  ret void
}

define internal i1 @__mneme_shared_allows(i64 %address, i64 %bytes, i32 %site, i32 %flags, i64 %value, i64 %base, i64 %extent, i64 %shadow) noinline nounwind {
entry:
  %misaligned = call i1 @__mneme_misaligned(i64 %address, i64 %bytes, i32 %site, i32 %flags)
  br i1 %misaligned, label %no, label %bounds

bounds:
  %is.dynamic = icmp eq i64 %extent, -1
  %dynamic = call i64 @__mneme_word(i64 9)
  %size = select i1 %is.dynamic, i64 %dynamic, i64 %extent
  %offset = sub i64 %address, %base
  %inside = call i1 @__mneme_inside(i64 %offset, i64 %bytes, i64 %size)
  br i1 %inside, label %track, label %outside

outside:
  call void @__mneme_report(i32 0, i32 %site, i64 %address, i64 %bytes, i64 %offset)
  br label %no

track:
  call void @__mneme_track(i64 %shadow, i64 %offset, i64 %bytes, i32 %site, i32 %flags, i64 %value, i64 %address)
  ret i1 true

no:
  ret i1 false
}

; The same of an access to a shared variable.
define ptr @__mneme_shared(ptr %place, i64 %bytes, i32 %site, i32 %flags, i64 %value, i64 %base, i64 %extent, i64 %shadow) noinline nounwind {
  %address = ptrtoint ptr %place to i64
  %allowed = call i1 @__mneme_shared_allows(i64 %address, i64 %bytes, i32 %site, i32 %flags, i64 %value, i64 %base, i64 %extent, i64 %shadow)
  %sink = call ptr @__mneme_sink(ptr %place, i64 %bytes, i32 %flags)
  %result = select i1 %allowed, ptr %place, ptr %sink
  ret ptr %result
}
