/*
 * sum_at: sum_at
 * predicted: 7.09 us, bound by atomics
 * rule: scattering/sums-of-narrow-updates: made sum_at f32[1000, 256]
 */
extern "C" __global__ void __launch_bounds__(256) k_sum_at(const long long *__restrict__ in0, const bf16 *__restrict__ in1, float *__restrict__ out0) {
  const unsigned first = (unsigned)blockIdx.x * 1024 + threadIdx.x * 4;
  long long i[1];
  float u[1][4];
#pragma unroll
  for (int q = 0; q < 1; ++q) {
    const unsigned at = first + q * 1024;
    i[q] = -1;
    if (at >= 606208) continue;
    i[q] = in0[at / 256 % 2368];
    i[q] += i[q] < 0 ? 1000 : 0;
    ac_load<4>(u[q], in1 + at);
  }
#pragma unroll
  for (int q = 0; q < 1; ++q) {
    const unsigned at = first + q * 1024;
    if (i[q] >= 0 && i[q] < 1000) ac_add_to<4>(out0 + ((unsigned)i[q] * 256 + at % 256), u[q]);
  }
}
