; What instrumented code calls to have its accesses checked. The rules are in docs/guides/check.md, the buffers in crates/builds/src/instrument/layout.rs.
;
; Flags of an access: 1 it reads, 2 it writes, 4 it is ordered (atomic, volatile), 8 the value it writes is known, 16 what it reads may be
; padding; from bit 8 on the bits of the address that its alignment wants zero.

; Made for the module: the shared variable that holds an address (base -1 where there is none), and whether an access is inside of one of the
; module's own variables.
declare { i64, i64, i64 } @__mneme_shared_object(i64, i64)
declare i1 @__mneme_own_object(i64, i64)

; The number of the running block in the window that is watched, -1 outside.
define internal i64 @__mneme_window() alwaysinline nounwind {
  %block = call i64 @__mneme_block()
  %first = call i64 @__mneme_word(i64 7)
  %blocks = call i64 @__mneme_word(i64 8)
  %index = sub i64 %block, %first
  %inside = icmp ult i64 %index, %blocks
  %result = select i1 %inside, i64 %index, i64 -1
  ret i64 %result
}

define internal void @__mneme_report(i32 %fault, i32 %site, i64 %address, i64 %bytes, i64 %detail) noinline cold nounwind {
entry:
  %index = call i64 @__mneme_window()
  %outside = icmp eq i64 %index, -1
  br i1 %outside, label %done, label %count

count:
  %notes.address = call i64 @__mneme_word(i64 2)
  %notes = inttoptr i64 %notes.address to ptr addrspace(1)
  %wide.site = zext i32 %site to i64
  %wide.fault = zext i32 %fault to i64
  %site.faults = shl i64 %wide.site, 2
  %number = add i64 %site.faults, %wide.fault
  %offset = mul i64 %number, 168
  %note = getelementptr i8, ptr addrspace(1) %notes, i64 %offset
  %before = atomicrmw add ptr addrspace(1) %note, i64 1 monotonic
  %early = icmp ult i64 %before, 4
  br i1 %early, label %example, label %done

example:
  %example.offset = mul i64 %before, 40
  %behind.count = add i64 %example.offset, 8
  %place = getelementptr i8, ptr addrspace(1) %note, i64 %behind.count
  %place.thread = getelementptr i64, ptr addrspace(1) %place, i64 1
  %place.address = getelementptr i64, ptr addrspace(1) %place, i64 2
  %place.bytes = getelementptr i64, ptr addrspace(1) %place, i64 3
  %place.detail = getelementptr i64, ptr addrspace(1) %place, i64 4
  %block = call i64 @__mneme_block()
  %thread = call i32 @__mneme_thread()
  %wide.thread = zext i32 %thread to i64
  store i64 %block, ptr addrspace(1) %place, align 8
  store i64 %wide.thread, ptr addrspace(1) %place.thread, align 8
  store i64 %address, ptr addrspace(1) %place.address, align 8
  store i64 %bytes, ptr addrspace(1) %place.bytes, align 8
  store i64 %detail, ptr addrspace(1) %place.detail, align 8
  br label %done

done:
  ret void
}

; Memory in the place of what must not be accessed; what is too large for it is left where it is.
define internal ptr @__mneme_sink(ptr %place, i64 %bytes, i32 %flags) nounwind {
  %sink = call i64 @__mneme_word(i64 3)
  %writes = and i32 %flags, 2
  %writing = icmp ne i32 %writes, 0
  %offset = select i1 %writing, i64 4096, i64 0
  %address = add i64 %sink, %offset
  %pointer = inttoptr i64 %address to ptr
  %large = icmp ugt i64 %bytes, 4096
  %result = select i1 %large, ptr %place, ptr %pointer
  ret ptr %result
}

define internal i1 @__mneme_misaligned(i64 %address, i64 %bytes, i32 %site, i32 %flags) alwaysinline nounwind {
entry:
  %bits = lshr i32 %flags, 8
  %mask = zext i32 %bits to i64
  %rest = and i64 %address, %mask
  %misaligned = icmp ne i64 %rest, 0
  br i1 %misaligned, label %report, label %done

report:
  %alignment = add i64 %mask, 1
  call void @__mneme_report(i32 3, i32 %site, i64 %address, i64 %bytes, i64 %alignment)
  br label %done

done:
  ret i1 %misaligned
}

; Whether bytes from an offset are inside of an extent.
define internal i1 @__mneme_inside(i64 %offset, i64 %bytes, i64 %extent) alwaysinline nounwind {
  %starts = icmp ule i64 %offset, %extent
  %room = sub i64 %extent, %offset
  %ends = icmp ule i64 %bytes, %room
  %inside = and i1 %starts, %ends
  ret i1 %inside
}

; Whether bytes are inside of one stretch of the table.
define internal i1 @__mneme_live(i64 %address, i64 %bytes) noinline nounwind {
entry:
  %stretch = call i64 @__mneme_stretch(i64 %address)
  %none = icmp eq i64 %stretch, -1
  br i1 %none, label %dead, label %compare

compare:
  %table.address = call i64 @__mneme_word(i64 0)
  %table = inttoptr i64 %table.address to ptr addrspace(1)
  %word = shl i64 %stretch, 1
  %end.word = or i64 %word, 1
  %first.place = getelementptr i64, ptr addrspace(1) %table, i64 %word
  %end.place = getelementptr i64, ptr addrspace(1) %table, i64 %end.word
  %first = load i64, ptr addrspace(1) %first.place, align 8
  %end = load i64, ptr addrspace(1) %end.place, align 8
  %extent = sub i64 %end, %first
  %offset = sub i64 %address, %first
  %inside = call i1 @__mneme_inside(i64 %offset, i64 %bytes, i64 %extent)
  ret i1 %inside

dead:
  ret i1 false
}

define internal i1 @__mneme_allows(ptr %place, i64 %bytes, i32 %site, i32 %flags, i64 %value) noinline nounwind {
entry:
  %address = ptrtoint ptr %place to i64
  %is.shared = call i1 @__mneme_is_shared(ptr %place)
  br i1 %is.shared, label %shared, label %elsewhere

shared:
  %dynamic = call i64 @__mneme_word(i64 9)
  %object = call { i64, i64, i64 } @__mneme_shared_object(i64 %address, i64 %dynamic)
  %base = extractvalue { i64, i64, i64 } %object, 0
  %extent = extractvalue { i64, i64, i64 } %object, 1
  %shadow = extractvalue { i64, i64, i64 } %object, 2
  %unknown = icmp eq i64 %base, -1
  br i1 %unknown, label %nowhere.shared, label %variable

variable:
  %allowed = call i1 @__mneme_shared_allows(i64 %address, i64 %bytes, i32 %site, i32 %flags, i64 %value, i64 %base, i64 %extent, i64 %shadow)
  ret i1 %allowed

elsewhere:
  %misaligned = call i1 @__mneme_misaligned(i64 %address, i64 %bytes, i32 %site, i32 %flags)
  br i1 %misaligned, label %no, label %look

look:
  %live = call i1 @__mneme_live(i64 %address, i64 %bytes)
  br i1 %live, label %yes, label %look.local

look.local:
  %is.local = call i1 @__mneme_is_local(ptr %place)
  br i1 %is.local, label %yes, label %look.own

look.own:
  %own = call i1 @__mneme_own_object(i64 %address, i64 %bytes)
  br i1 %own, label %yes, label %nowhere

nowhere.shared:
  call void @__mneme_report(i32 0, i32 %site, i64 %address, i64 %bytes, i64 -9223372036854775807)
  br label %no

nowhere:
  call void @__mneme_report(i32 0, i32 %site, i64 %address, i64 %bytes, i64 -9223372036854775808)
  br label %no

yes:
  ret i1 true

no:
  ret i1 false
}

; An access to an address of which nothing is known: where it is to go.
define ptr @__mneme_access(ptr %place, i64 %bytes, i32 %site, i32 %flags, i64 %value) noinline nounwind {
  %allowed = call i1 @__mneme_allows(ptr %place, i64 %bytes, i32 %site, i32 %flags, i64 %value)
  %sink = call ptr @__mneme_sink(ptr %place, i64 %bytes, i32 %flags)
  %result = select i1 %allowed, ptr %place, ptr %sink
  ret ptr %result
}

; How many of the bytes may be accessed: all or none.
define i64 @__mneme_range(ptr %place, i64 %bytes, i32 %site, i32 %flags) noinline nounwind {
entry:
  %empty = icmp eq i64 %bytes, 0
  br i1 %empty, label %none, label %some

some:
  %allowed = call i1 @__mneme_allows(ptr %place, i64 %bytes, i32 %site, i32 %flags, i64 0)
  %result = select i1 %allowed, i64 %bytes, i64 0
  ret i64 %result

none:
  ret i64 0
}

; An access that is outside of a variable of the thread or of the module, or misaligned, by its offset there: where it is to go.
define ptr @__mneme_offset(i64 %offset, i64 %bytes, i64 %extent, i32 %site, i32 %flags) noinline cold nounwind {
entry:
  %misaligned = call i1 @__mneme_misaligned(i64 %offset, i64 %bytes, i32 %site, i32 %flags)
  br i1 %misaligned, label %done, label %outside

outside:
  call void @__mneme_report(i32 0, i32 %site, i64 0, i64 %bytes, i64 %offset)
  br label %done

done:
  %sink = call ptr @__mneme_sink(ptr null, i64 %bytes, i32 %flags)
  ret ptr %sink
}

; How many of the bytes from an offset in a local variable may be accessed: all or none.
define i64 @__mneme_range_offset(i64 %offset, i64 %bytes, i64 %extent, i32 %site, i32 %flags) alwaysinline nounwind {
entry:
  %inside = call i1 @__mneme_inside(i64 %offset, i64 %bytes, i64 %extent)
  %empty = icmp eq i64 %bytes, 0
  %fine = or i1 %inside, %empty
  br i1 %fine, label %yes, label %no

no:
  call void @__mneme_report(i32 0, i32 %site, i64 0, i64 %bytes, i64 %offset)
  ret i64 0

yes:
  ret i64 %bytes
}

; A read of a local variable that nothing wrote.
define void @__mneme_unset(i1 %unset, i32 %site) noinline nounwind {
entry:
  br i1 %unset, label %report, label %done

report:
  call void @__mneme_report(i32 1, i32 %site, i64 0, i64 0, i64 0)
  br label %done

done:
  ret void
}
