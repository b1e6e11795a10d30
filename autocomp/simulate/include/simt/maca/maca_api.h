// Written by targets/maca/stand_in.py from targets/maca/api.yaml.
#pragma once
enum { MACA_ICMP_EQ = 32, MACA_ICMP_NE = 33 };
inline standin_float4 __builtin_mxc_mma_16x16x16f16(standin_half4 x, standin_half4 y, standin_float4 c) {
  return model_mma_16x16x16f16(x, y, c);
}
inline standin_float4 __builtin_mxc_mma_16x16x16bf16(standin_half4 x, standin_half4 y, standin_float4 c) {
  return model_mma_16x16x16bf16(x, y, c);
}
inline standin_int4 __builtin_mxc_mma_16x16x16i8(int x, int y, standin_int4 c) {
  return model_mma_16x16x16i8(x, y, c);
}
inline standin_float4 __builtin_mxc_mma_16x16x4f32(float x, float y, standin_float4 c) {
  return model_mma_16x16x4f32(x, y, c);
}
inline standin_float4 __builtin_mxc_mma_16x16x8tf32(standin_float2 x, standin_float2 y, standin_float4 c) {
  return model_mma_16x16x8tf32(x, y, c);
}
inline void __builtin_mxc_ldg_b128_bsm_predicator(void *to, void *from, int imm, bool ret0_en, bool saddr, bool pred_neg, bool is_async, int a, int b, int op) {
  if (imm < 0 || imm > 0) simt_fail("imm of __builtin_mxc_ldg_b128_bsm_predicator is outside of 0..0");
  if (op < 32 || op > 33) simt_fail("op of __builtin_mxc_ldg_b128_bsm_predicator is outside of 32..33");
  return model_ldg_b128_bsm_predicator(to, from, imm, ret0_en, saddr, pred_neg, is_async, a, b, op);
}
inline void __builtin_mxc_arrive_gvmcnt(int n) {
  if (n < 0 || n > 63) simt_fail("n of __builtin_mxc_arrive_gvmcnt is outside of 0..63");
  return model_arrive_gvmcnt(n);
}
