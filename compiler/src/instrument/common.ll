; What all kinds of instrumentation use, on top of nvptx.ll or amdgcn.ll. The words of the state are named in crates/builds/src/instrument/layout.rs.

@__mneme_state = addrspace(1) externally_initialized global [17 x i64] zeroinitializer, align 16

define internal { i32, i32, i32 } @__mneme_triple(i32 %x, i32 %y, i32 %z) alwaysinline nounwind {
  %one = insertvalue { i32, i32, i32 } poison, i32 %x, 0
  %two = insertvalue { i32, i32, i32 } %one, i32 %y, 1
  %three = insertvalue { i32, i32, i32 } %two, i32 %z, 2
  ret { i32, i32, i32 } %three
}

define internal i64 @__mneme_word(i64 %index) alwaysinline nounwind {
  %place = getelementptr inbounds [17 x i64], ptr addrspace(1) @__mneme_state, i64 0, i64 %index
  %word = load i64, ptr addrspace(1) %place, align 8
  ret i64 %word
}

; The number of the running thread in its block, x varying fastest.
define internal i32 @__mneme_thread() alwaysinline nounwind {
  %place = call { i32, i32, i32 } @__mneme_thread_place()
  %x = extractvalue { i32, i32, i32 } %place, 0
  %y = extractvalue { i32, i32, i32 } %place, 1
  %z = extractvalue { i32, i32, i32 } %place, 2
  %size = call { i32, i32, i32 } @__mneme_block_size()
  %width = extractvalue { i32, i32, i32 } %size, 0
  %height = extractvalue { i32, i32, i32 } %size, 1
  %slices = mul i32 %z, %height
  %rows = add i32 %slices, %y
  %before = mul i32 %rows, %width
  %thread = add i32 %before, %x
  ret i32 %thread
}

; The number of its block in the grid.
define internal i64 @__mneme_block() alwaysinline nounwind {
  %place = call { i32, i32, i32 } @__mneme_block_place()
  %x = extractvalue { i32, i32, i32 } %place, 0
  %y = extractvalue { i32, i32, i32 } %place, 1
  %z = extractvalue { i32, i32, i32 } %place, 2
  %size = call { i32, i32, i32 } @__mneme_grid_size()
  %width = extractvalue { i32, i32, i32 } %size, 0
  %height = extractvalue { i32, i32, i32 } %size, 1
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

; The number of the last stretch of the table of live memory that begins at an address or before it, -1 where there is none.
define internal i64 @__mneme_stretch(i64 %address) alwaysinline nounwind {
entry:
  %table.address = call i64 @__mneme_word(i64 0)
  %length = call i64 @__mneme_word(i64 1)
  %table = inttoptr i64 %table.address to ptr addrspace(1)
  br label %search

search:
  %low = phi i64 [ 0, %entry ], [ %next.low, %step ]
  %high = phi i64 [ %length, %entry ], [ %next.high, %step ]
  %open = icmp ult i64 %low, %high
  br i1 %open, label %step, label %found

step:
  %sum = add i64 %low, %high
  %middle = lshr i64 %sum, 1
  %middle.word = shl i64 %middle, 1
  %start.place = getelementptr i64, ptr addrspace(1) %table, i64 %middle.word
  %start = load i64, ptr addrspace(1) %start.place, align 8
  %begins = icmp ule i64 %start, %address
  %above = add i64 %middle, 1
  %next.low = select i1 %begins, i64 %above, i64 %low
  %next.high = select i1 %begins, i64 %high, i64 %middle
  br label %search

found:
  %last = sub i64 %low, 1
  ret i64 %last
}
