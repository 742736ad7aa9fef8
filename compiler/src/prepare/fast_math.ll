; The device library's float functions, with the hardware's approximations that clang uses with -ffast-math.

declare float @llvm.nvvm.sin.approx.ftz.f(float)
declare float @llvm.nvvm.cos.approx.ftz.f(float)
declare float @llvm.nvvm.ex2.approx.ftz.f(float)
declare float @llvm.nvvm.lg2.approx.ftz.f(float)

define float @mneme_fast.sinf(float %x) alwaysinline nounwind memory(none) {
  %y = call float @llvm.nvvm.sin.approx.ftz.f(float %x)
  ret float %y
}
define float @mneme_fast.cosf(float %x) alwaysinline nounwind memory(none) {
  %y = call float @llvm.nvvm.cos.approx.ftz.f(float %x)
  ret float %y
}
define float @mneme_fast.tanf(float %x) alwaysinline nounwind memory(none) {
  %s = call float @llvm.nvvm.sin.approx.ftz.f(float %x)
  %c = call float @llvm.nvvm.cos.approx.ftz.f(float %x)
  %y = fdiv fast float %s, %c
  ret float %y
}
define float @mneme_fast.exp2f(float %x) alwaysinline nounwind memory(none) {
  %y = call float @llvm.nvvm.ex2.approx.ftz.f(float %x)
  ret float %y
}
; log2(e) = 1.44269502162933349609375 as a float
define float @mneme_fast.expf(float %x) alwaysinline nounwind memory(none) {
  %t = fmul fast float %x, 0x3FF7154760000000
  %y = call float @llvm.nvvm.ex2.approx.ftz.f(float %t)
  ret float %y
}
; log2(10) = 3.32192802429199218750 as a float
define float @mneme_fast.exp10f(float %x) alwaysinline nounwind memory(none) {
  %t = fmul fast float %x, 0x400A934F00000000
  %y = call float @llvm.nvvm.ex2.approx.ftz.f(float %t)
  ret float %y
}
define float @mneme_fast.log2f(float %x) alwaysinline nounwind memory(none) {
  %y = call float @llvm.nvvm.lg2.approx.ftz.f(float %x)
  ret float %y
}
; ln(2) = 0.693147182464599609375 as a float
define float @mneme_fast.logf(float %x) alwaysinline nounwind memory(none) {
  %t = call float @llvm.nvvm.lg2.approx.ftz.f(float %x)
  %y = fmul fast float %t, 0x3FE62E4300000000
  ret float %y
}
; log10(2) = 0.301030009984970092773437500 as a float
define float @mneme_fast.log10f(float %x) alwaysinline nounwind memory(none) {
  %t = call float @llvm.nvvm.lg2.approx.ftz.f(float %x)
  %y = fmul fast float %t, 0x3FD3441360000000
  ret float %y
}
define float @mneme_fast.powf(float %x, float %y) alwaysinline nounwind memory(none) {
  %l = call float @llvm.nvvm.lg2.approx.ftz.f(float %x)
  %t = fmul fast float %y, %l
  %z = call float @llvm.nvvm.ex2.approx.ftz.f(float %t)
  ret float %z
}
