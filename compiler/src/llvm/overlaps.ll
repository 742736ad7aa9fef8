; What code calls before each access whose overlaps are looked for (overlaps.cpp). The table has 64 entries of 24 bytes for eight bytes of memory
; each: u64 which (the address divided by eight), the kind of the last store to each of the bytes, the kind of its last load. Another eight
; bytes may take the entry, which then forgets.

declare void @llvm.trap()

define void @__mneme_overlap(ptr %table, i64 %address, i64 %bytes, i8 %kind, i64 %after.stores, i64 %after.loads, i1 %writes) noinline nounwind {
entry:
  br label %byte

byte:
  %index = phi i64 [ 0, %entry ], [ %next, %note ]
  %at = add i64 %address, %index
  %granule = lshr i64 %at, 3
  %mixed = mul i64 %granule, -7046029254386353131
  %slot = lshr i64 %mixed, 58
  %offset = mul i64 %slot, 24
  %entry.place = getelementptr i8, ptr %table, i64 %offset
  %stores = getelementptr i8, ptr %entry.place, i64 8
  %loads = getelementptr i8, ptr %entry.place, i64 16
  %known = load i64, ptr %entry.place, align 8
  %same = icmp eq i64 %known, %granule
  br i1 %same, label %look, label %reset

reset:
  store i64 %granule, ptr %entry.place, align 8
  store i64 0, ptr %stores, align 8
  store i64 0, ptr %loads, align 8
  br label %look

look:
  %low = and i64 %at, 7
  %store.place = getelementptr i8, ptr %stores, i64 %low
  %load.place = getelementptr i8, ptr %loads, i64 %low
  %stored = load i8, ptr %store.place, align 1
  %loaded = load i8, ptr %load.place, align 1
  %wide.stored = zext i8 %stored to i64
  %wide.loaded = zext i8 %loaded to i64
  %stored.bits = lshr i64 %after.stores, %wide.stored
  %loaded.bits = lshr i64 %after.loads, %wide.loaded
  %bits = or i64 %stored.bits, %loaded.bits
  %wrong = trunc i64 %bits to i1
  br i1 %wrong, label %broken, label %note

broken:
  call void @llvm.trap()
  unreachable

note:
  %place = select i1 %writes, ptr %store.place, ptr %load.place
  store i8 %kind, ptr %place, align 1
  %next = add i64 %index, 1
  %more = icmp ult i64 %next, %bytes
  br i1 %more, label %byte, label %done

done:
  ret void
}
