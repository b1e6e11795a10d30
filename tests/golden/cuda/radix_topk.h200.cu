/*
 * radix_topk: radix_topk
 * predicted: 16.74 us, bound by order
 * rule: ordering/radix-select: made radix_topk i64[600, 32]
 */
struct __align__(8) k_radix_topk_pair { unsigned key; int at; };
AC_DEVICE unsigned k_radix_topk_key(unsigned x) {
  const unsigned size = x & 0x80000000u - 1;
  const unsigned u = size > 0x7f800000u ? 0xffffffffu : size == 0 || !(x & 0x80000000u) ? size | 0x80000000u : ~(unsigned)x & 0xffffffffu;
  return u ^ 0xffffffffu;
}
// warps leave their parts in one of two places by turns, so that one barrier is enough
AC_DEVICE int k_radix_topk_sum(int x, int *part, int &turn) {
  int all = ac_wave_sum(x);
  part += (turn++ & 1) * 8;
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = all;
  __syncthreads();
  all = ac_wave_sum(threadIdx.x % 32 < 8 ? part[threadIdx.x % 32] : 0);
  return all;
}
AC_DEVICE int k_radix_topk_before(int x, int *part, int &turn) {
  int all = x, before = 0;
  for (int m = 1; m < 32; m *= 2) {
    const int other = ac_shuffle_xor(all, m);
    before += threadIdx.x & m ? other : 0;
    all += other;
  }
  part += (turn++ & 1) * 8;
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = all;
  __syncthreads();
  for (int w = 0; w < threadIdx.x / 32; ++w) before += part[w];
  return before;
}
extern "C" __global__ void __launch_bounds__(256, 4) k_radix_topk(const float *__restrict__ in0, long long *__restrict__ out0) {
  extern __shared__ __align__(1024) unsigned char smem[];
  const long long rows = 600L, inner = 1L;
  const int n = 5000, k = 32, lane = threadIdx.x % 256;
  const long long r = (long long)blockIdx.x * 1 + threadIdx.x / 256;
  if (r >= rows) return;
  const unsigned *row = reinterpret_cast<const unsigned *>(in0) + r / inner * n * inner + r % inner;
  k_radix_topk_pair *p = reinterpret_cast<k_radix_topk_pair *>(smem) + threadIdx.x / 256 * 32;
  int *part = reinterpret_cast<int *>(smem + 256);
  unsigned h[20];
#pragma unroll
  for (int i = 0; i < 20; ++i) {
    const int j = lane + i * 256;
    h[i] = j < n ? k_radix_topk_key(row[(long long)j * inner]) : ~(unsigned)0;
  }
  unsigned bound = 0;
  int first = 0, below = 0, turn = 0;
  for (unsigned bit = (unsigned)1 << 31; bit && below < k; bit >>= 1) {
    const unsigned c = bound | bit;
    int mine = 0;
#pragma unroll
    for (int i = 0; i < 20; ++i) {
      const auto u = h[i];
      mine += u < c;
    }
    const int all = k_radix_topk_sum(mine, part, turn);
    if (all <= k) bound = c, below = all;
  }
  const int less = below;
  for (int bit = 4096; bit && below < k; bit >>= 1) {
    const int c = first | bit;
    int mine = 0;
#pragma unroll
    for (int i = 0; i < 20; ++i) {
      const int j = lane + i * 256;
      const auto u = h[i];
      mine += u == bound && j < c;
    }
    const int all = less + k_radix_topk_sum(mine, part, turn);
    if (all <= k) first = c, below = all;
  }
  int mine = 0;
#pragma unroll
  for (int i = 0; i < 20; ++i) {
    const int j = lane + i * 256;
    const auto u = h[i];
    mine += u < bound || (u == bound && j < first);
  }
  const int many = k, places = 32;
  int slot = k_radix_topk_before(mine, part, turn);
#pragma unroll
  for (int i = 0; i < 20; ++i) {
    const int j = lane + i * 256;
    const auto u = h[i];
    if (u < bound || (u == bound && j < first)) p[slot++] = k_radix_topk_pair{u, j};
  }
  for (int s = many + lane; s < places; s += 256) p[s] = k_radix_topk_pair{~(unsigned)0, 0x7fffffff};
  __syncthreads();
  if (threadIdx.x >= 32) return;
  for (int size = 2; size <= places; size *= 2)
    for (int gap = size / 2; gap; gap /= 2) {
      for (int s = lane; s < places / 2; s += 32) {
        const int a = 2 * s - (s & gap - 1), b = a + gap;
        const k_radix_topk_pair x = p[a], y = p[b];
        if ((x.key > y.key || (x.key == y.key && x.at > y.at)) == !(a & size)) p[a] = y, p[b] = x;
      }
      ac_wave_sync();
    }
  long long *to = reinterpret_cast<long long *>(out0) + r / inner * k * inner + r % inner;
  for (int s = lane; s < k; s += 32) to[(long long)s * inner] = p[s].at;
}
