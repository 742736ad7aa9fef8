; Notes a write that covers watched addresses, right after it.

define void @__mneme_written(ptr %place, i64 %bytes, i32 %site) noinline nounwind {
entry:
  %start = ptrtoint ptr %place to i64
  %end = add i64 %start, %bytes
  %watch = call i64 @__mneme_word(i64 10)
  %watch.end = call i64 @__mneme_word(i64 11)
  %starts.before = icmp ult i64 %start, %watch.end
  %ends.behind = icmp ugt i64 %end, %watch
  %covers = and i1 %starts.before, %ends.behind
  br i1 %covers, label %note, label %done

note:
  %writes = call i64 @__mneme_word(i64 12)
  %count = inttoptr i64 %writes to ptr addrspace(1)
  %before = atomicrmw add ptr addrspace(1) %count, i64 1 monotonic
  %number = add i64 %before, 1
  %slot = and i64 %before, 63
  %offset = mul i64 %slot, 64
  %behind.count = add i64 %offset, 8
  %record = getelementptr i8, ptr addrspace(1) %count, i64 %behind.count
  %record.site = getelementptr i64, ptr addrspace(1) %record, i64 1
  %record.block = getelementptr i64, ptr addrspace(1) %record, i64 2
  %record.thread = getelementptr i64, ptr addrspace(1) %record, i64 3
  %record.address = getelementptr i64, ptr addrspace(1) %record, i64 4
  %record.bytes = getelementptr i64, ptr addrspace(1) %record, i64 5
  %record.value = getelementptr i64, ptr addrspace(1) %record, i64 6
  %block = call i64 @__mneme_block()
  %thread = call i32 @__mneme_thread()
  %wide.thread = zext i32 %thread to i64
  %wide.site = zext i32 %site to i64
  store i64 %number, ptr addrspace(1) %record, align 8
  store i64 %wide.site, ptr addrspace(1) %record.site, align 8
  store i64 %block, ptr addrspace(1) %record.block, align 8
  store i64 %wide.thread, ptr addrspace(1) %record.thread, align 8
  store i64 %start, ptr addrspace(1) %record.address, align 8
  store i64 %bytes, ptr addrspace(1) %record.bytes, align 8
  br label %copy

copy:
  %at = phi i64 [ %watch, %note ], [ %next, %copy ]
  %to.offset = sub i64 %at, %watch
  %to = getelementptr i8, ptr addrspace(1) %record.value, i64 %to.offset
  %from = inttoptr i64 %at to ptr addrspace(1)
  %byte = load volatile i8, ptr addrspace(1) %from, align 1
  store i8 %byte, ptr addrspace(1) %to, align 1
  %next = add i64 %at, 1
  %more = icmp ult i64 %next, %watch.end
  br i1 %more, label %copy, label %done

done:
  ret void
}
