; Functions of the compiler's run-time library, which the code generator calls and the C library lacks.
; They are linked in only if an object would import one of them.

define hidden half @__truncdfhf2(double %value) nounwind {
  %bits = call i16 @__mneme_cpu.narrow16(double %value, i32 0, i64 10, i64 15)
  %half = bitcast i16 %bits to half
  ret half %half
}

define hidden half @__truncsfhf2(float %value) nounwind {
  %wide = fpext float %value to double
  %bits = call i16 @__mneme_cpu.narrow16(double %wide, i32 0, i64 10, i64 15)
  %half = bitcast i16 %bits to half
  ret half %half
}

define hidden bfloat @__truncdfbf2(double %value) nounwind {
  %bits = call i16 @__mneme_cpu.narrow16(double %value, i32 0, i64 7, i64 127)
  %brain = bitcast i16 %bits to bfloat
  ret bfloat %brain
}

define hidden bfloat @__truncsfbf2(float %value) nounwind {
  %wide = fpext float %value to double
  %bits = call i16 @__mneme_cpu.narrow16(double %wide, i32 0, i64 7, i64 127)
  %brain = bitcast i16 %bits to bfloat
  ret bfloat %brain
}

; Exponents of normal numbers are rebiased. A subnormal number is the fraction times 2^-24.
define hidden float @__extendhfsf2(half %half) nounwind {
  %bits = bitcast half %half to i16
  %wide = zext i16 %bits to i32
  %sign = and i32 %wide, 32768
  %sign.bit = shl i32 %sign, 16
  %magnitude = and i32 %wide, 32767
  %fraction = uitofp i32 %magnitude to float
  %small = fmul float %fraction, 0x3E70000000000000
  %small.bits = bitcast float %small to i32
  %moved = shl i32 %magnitude, 13
  %normal = add i32 %moved, 939524096
  %special = or i32 %moved, 2139095040
  %is.small = icmp ult i32 %magnitude, 1024
  %is.special = icmp uge i32 %magnitude, 31744
  %number = select i1 %is.small, i32 %small.bits, i32 %normal
  %all = select i1 %is.special, i32 %special, i32 %number
  %signed = or i32 %all, %sign.bit
  %float = bitcast i32 %signed to float
  ret float %float
}

; 128-bit division, a bit at a time.
define internal { i128, i128 } @__mneme_cpu.divide(i128 %dividend, i128 %divisor) nounwind {
entry:
  br label %step

step:
  %i = phi i32 [ 128, %entry ], [ %next, %step ]
  %quotient = phi i128 [ %dividend, %entry ], [ %new.quotient, %step ]
  %remainder = phi i128 [ 0, %entry ], [ %new.remainder, %step ]
  %out = lshr i128 %remainder, 127
  %carried = icmp ne i128 %out, 0
  %shifted = shl i128 %remainder, 1
  %top = lshr i128 %quotient, 127
  %trial = or i128 %shifted, %top
  %not.less = icmp uge i128 %trial, %divisor
  %fits = or i1 %carried, %not.less
  %reduced = sub i128 %trial, %divisor
  %new.remainder = select i1 %fits, i128 %reduced, i128 %trial
  %bit = zext i1 %fits to i128
  %doubled = shl i128 %quotient, 1
  %new.quotient = or i128 %doubled, %bit
  %next = sub i32 %i, 1
  %done = icmp eq i32 %next, 0
  br i1 %done, label %exit, label %step

exit:
  %first = insertvalue { i128, i128 } poison, i128 %new.quotient, 0
  %both = insertvalue { i128, i128 } %first, i128 %new.remainder, 1
  ret { i128, i128 } %both
}

define hidden i128 @__udivti3(i128 %a, i128 %b) nounwind {
  %both = call { i128, i128 } @__mneme_cpu.divide(i128 %a, i128 %b)
  %quotient = extractvalue { i128, i128 } %both, 0
  ret i128 %quotient
}

define hidden i128 @__umodti3(i128 %a, i128 %b) nounwind {
  %both = call { i128, i128 } @__mneme_cpu.divide(i128 %a, i128 %b)
  %remainder = extractvalue { i128, i128 } %both, 1
  ret i128 %remainder
}

define hidden i128 @__divti3(i128 %a, i128 %b) nounwind {
  %a.magnitude = call i128 @llvm.abs.i128(i128 %a, i1 false)
  %b.magnitude = call i128 @llvm.abs.i128(i128 %b, i1 false)
  %both = call { i128, i128 } @__mneme_cpu.divide(i128 %a.magnitude, i128 %b.magnitude)
  %quotient = extractvalue { i128, i128 } %both, 0
  %signs = xor i128 %a, %b
  %negative = icmp slt i128 %signs, 0
  %negated = sub i128 0, %quotient
  %result = select i1 %negative, i128 %negated, i128 %quotient
  ret i128 %result
}

define hidden i128 @__modti3(i128 %a, i128 %b) nounwind {
  %a.magnitude = call i128 @llvm.abs.i128(i128 %a, i1 false)
  %b.magnitude = call i128 @llvm.abs.i128(i128 %b, i1 false)
  %both = call { i128, i128 } @__mneme_cpu.divide(i128 %a.magnitude, i128 %b.magnitude)
  %remainder = extractvalue { i128, i128 } %both, 1
  %negative = icmp slt i128 %a, 0
  %negated = sub i128 0, %remainder
  %result = select i1 %negative, i128 %negated, i128 %remainder
  ret i128 %result
}
