#include "autocomp_cuda.cuh"

/*
 * mul_add_gelu_tanh: mul add gelu tanh
 * schedule: tile i0 2048
 * predicted: 4.33 us, bound by launch, 7% of the roofline
 * rule: fusion/map-into-map: mul into operand 1 of add
 * rule: fusion/map-into-map: add into operand 0 of gelu
 * rule: fusion/map-into-map: gelu into operand 0 of tanh
 * rule: tiling/gpu-elements: the schedule
 *
 * kernel mul_add_gelu_tanh(in0: f16[i0:155400], in1: f16[i0:155400], in2: f16[i0:155400]) -> out0: f16[i0:155400]
 * axes i0=155400
 * tile i0=2048
 * grid i0
 *   in0_t: f16[i0] fragment = copy in0
 *   in1_t: f16[i0] fragment = copy in1
 *   in2_t: f16[i0] fragment = copy in2
 *   tanh_t: f16[i0] fragment = map tanh(gelu(in0_t + in1_t * in2_t))
 *   store out0 = tanh_t
 *
 * in0_t: reg (i0,1,8) lane (i0,8,32) wave (i0,256,8)
 * in1_t: reg (i0,1,8) lane (i0,8,32) wave (i0,256,8)
 * in2_t: reg (i0,1,8) lane (i0,8,32) wave (i0,256,8)
 * tanh_t: reg (i0,1,8) lane (i0,8,32) wave (i0,256,8)
 */
extern "C" __global__ void __launch_bounds__(256) k_mul_add_gelu_tanh(const f16 *__restrict__ in0, const f16 *__restrict__ in1, const f16 *__restrict__ in2, f16 *__restrict__ out0) {
  const int lane = threadIdx.x % AC_WAVE, wave = threadIdx.x / AC_WAVE;
  (void)lane; (void)wave;
  const int i0_t = lane * 8 + wave * 256;
  int block = blockIdx.x;
  const int i0_b = block * 2048;
  float in0_t[8];
  float in1_t[8];
  float in2_t[8];
  float tanh_t[8];
  for (int q = 0; q < 1; ++q) {
    ac_load_where<8>(&in0_t[q * 8], i0_b + i0_t + (q * 8) < 155400, in0 + (i0_b + i0_t + (q * 8)), 0.0f);
  }
  for (int q = 0; q < 1; ++q) {
    ac_load_where<8>(&in1_t[q * 8], i0_b + i0_t + (q * 8) < 155400, in1 + (i0_b + i0_t + (q * 8)), 0.0f);
  }
  for (int q = 0; q < 1; ++q) {
    ac_load_where<8>(&in2_t[q * 8], i0_b + i0_t + (q * 8) < 155400, in2 + (i0_b + i0_t + (q * 8)), 0.0f);
  }
  #pragma unroll
  for (int r = 0; r < 8; ++r) {
    tanh_t[r] = ac_tanh_half(ac_gelu_half((in0_t[r] + (in1_t[r] * in2_t[r]))));
  }
  for (int q = 0; q < 1; ++q) {
    if (i0_b + i0_t + (q * 8) < 155400) ac_store<8>(out0 + ((i0_b + i0_t + (q * 8))), &tanh_t[(q * 8)]);
  }
}
