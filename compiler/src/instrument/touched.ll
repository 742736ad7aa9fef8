; Marks the units of recorded memory that an access touches, right before it. Bit 0 of the marks: it reads, bit 1: it writes.
; A read of a unit that is not written yet sets bit 1 of its mark. Threads may lose that bit, but not bit 0.

define void @__mneme_touched(ptr %place, i64 %bytes, i32 %marks) noinline nounwind {
entry:
  %address = ptrtoint ptr %place to i64
  %stretch = call i64 @__mneme_stretch(i64 %address)
  %none = icmp eq i64 %stretch, -1
  %nothing = icmp eq i64 %bytes, 0
  %skip = or i1 %none, %nothing
  br i1 %skip, label %done, label %bounds

bounds:
  %table.address = call i64 @__mneme_word(i64 0)
  %table = inttoptr i64 %table.address to ptr addrspace(1)
  %word = shl i64 %stretch, 1
  %end.word = or i64 %word, 1
  %start.place = getelementptr i64, ptr addrspace(1) %table, i64 %word
  %end.place = getelementptr i64, ptr addrspace(1) %table, i64 %end.word
  %start = load i64, ptr addrspace(1) %start.place, align 8
  %end = load i64, ptr addrspace(1) %end.place, align 8
  %inside = icmp ult i64 %address, %end
  br i1 %inside, label %extent, label %done

extent:
  %room = sub i64 %end, %address
  %fits = icmp ule i64 %bytes, %room
  %length = select i1 %fits, i64 %bytes, i64 %room
  %offset = sub i64 %address, %start
  %behind = add i64 %offset, %length
  %last.byte = sub i64 %behind, 1
  %shift = call i64 @__mneme_word(i64 15)
  %first = lshr i64 %offset, %shift
  %last = lshr i64 %last.byte, %shift
  %firsts.address = call i64 @__mneme_word(i64 14)
  %firsts = inttoptr i64 %firsts.address to ptr addrspace(1)
  %number.place = getelementptr i64, ptr addrspace(1) %firsts, i64 %stretch
  %number = load i64, ptr addrspace(1) %number.place, align 8
  %marked.address = call i64 @__mneme_word(i64 13)
  %marked = inttoptr i64 %marked.address to ptr addrspace(1)
  %reads.bit = and i32 %marks, 1
  %writes.bit = and i32 %marks, 2
  %reads = icmp ne i32 %reads.bit, 0
  %writes = icmp ne i32 %writes.bit, 0
  br label %granule

granule:
  %at = phi i64 [ %first, %extent ], [ %next, %step ]
  %index = add i64 %number, %at
  %byte = shl i64 %index, 1
  %read.place = getelementptr i8, ptr addrspace(1) %marked, i64 %byte
  %written.place = getelementptr i8, ptr addrspace(1) %read.place, i64 1
  br i1 %reads, label %read, label %after.read

read:
  %was.written = load volatile i8, ptr addrspace(1) %written.place, align 1
  %is.first = icmp eq i8 %was.written, 0
  %mark = select i1 %is.first, i8 3, i8 1
  %was.read = load volatile i8, ptr addrspace(1) %read.place, align 1
  %now.read = or i8 %was.read, %mark
  store volatile i8 %now.read, ptr addrspace(1) %read.place, align 1
  br label %after.read

after.read:
  br i1 %writes, label %write, label %step

write:
  store volatile i8 1, ptr addrspace(1) %written.place, align 1
  br label %step

step:
  %next = add i64 %at, 1
  %more = icmp ule i64 %next, %last
  br i1 %more, label %granule, label %done

done:
  ret void
}

; Adds the floating-point operations that a thread performed to the counts of its block's slot.

define void @__mneme_performed(i64 %half, i64 %single, i64 %double) noinline nounwind {
entry:
  %counts.address = call i64 @__mneme_word(i64 16)
  %counts = inttoptr i64 %counts.address to ptr addrspace(1)
  %block = call i64 @__mneme_block()
  %slot = and i64 %block, 63
  %offset = mul i64 %slot, 64
  %half.place = getelementptr i8, ptr addrspace(1) %counts, i64 %offset
  %single.place = getelementptr i64, ptr addrspace(1) %half.place, i64 1
  %double.place = getelementptr i64, ptr addrspace(1) %half.place, i64 2
  call void @__mneme_sum(ptr addrspace(1) %half.place, i64 %half)
  call void @__mneme_sum(ptr addrspace(1) %single.place, i64 %single)
  call void @__mneme_sum(ptr addrspace(1) %double.place, i64 %double)
  ret void
}

define internal void @__mneme_sum(ptr addrspace(1) %place, i64 %number) alwaysinline nounwind {
entry:
  %nothing = icmp eq i64 %number, 0
  br i1 %nothing, label %done, label %more

more:
  %before = atomicrmw add ptr addrspace(1) %place, i64 %number monotonic
  br label %done

done:
  ret void
}
