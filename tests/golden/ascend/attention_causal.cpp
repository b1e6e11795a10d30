#include "autocomp_ascend.h"

/*
 * matmul_softmax_weighted_sum_iota_ge_2more: iota iota ge transpose matmul mul where softmax_weighted_sum
 * schedule: tile i0 1, i1 32, i2 64, r1 64 | stages 3 | softmax_overlap 1 | mma_row_sums | fused_scale
 * predicted: 9.46 us, bound by launch, 1% of the roofline
 * rule: monoids/online-softmax-half: made softmax_weighted_sum f16[1, 2, 200, 64]
 * rule: fusion/map-into-map: iota into operand 0 of ge
 * rule: fusion/map-into-map: iota into operand 1 of ge
 * rule: fusion/epilogue: matmul into operand 0 of mul
 * rule: fusion/map-into-map: ge into operand 0 of where
 * rule: fusion/epilogue: mul into operand 1 of where
 * rule: fusion/scores-into-online: where into operand 0 of softmax_weighted_sum
 * rule: tiling/npu-online-ahead: the schedule
 *
 * kernel matmul_softmax_weighted_sum_iota_ge_2more(in0: f16[i0:2, i1:200, r0:64], in1: f16[i0:2, r0:64, r1:200] of in1[2, 200, 64] at [i0, r1, r0], in2: f16[i0:2, i2:64, r1:200] of in2[2, 200, 64] at [i0, r1, i2]) -> out0: f16[i0:2, i1:200, i2:64]
 * axes i0=2 i1=200 i2=64 r0=64 r1=200
 * tile i0=1 i1=32 r1=64
 * grid i0, i1
 *   m: f32[i0, i1] fragment = fill -3.4028234663852886e+38
 *   l: f32[i0, i1] fragment = fill 0.0
 *   o: f32[i0, i1, i2] fragment = fill 0.0
 *   in0_t: f16[i0, i1, r0] block = copy in0
 *   l_ones: f16[r1] block = fill 1.0
 *   pipelined r1 stages=3 overlap=1 until=i1+0
 *     in1_t: f16[i0, r0, r1] block = copy in1
 *     acc: f32[i0, i1, r1] fragment = fill 0.0
 *     acc += mma in0_t, in1_t
 *     where_t: f32[i0, i1, r1] fragment = map where(idx(i1, i64) >= idx(r1, i64), acc, -inf)
 *     where_t_in: f32[i0, i1, r1] fragment = map where(idx(r1) < 200, where_t, -inf)
 *     m_t: f32[i0, i1] fragment = reduce max r1 where_t_in
 *     m_t2: f32[i0, i1] fragment = map m_t * 0.125
 *     m1: f32[i0, i1] fragment = map max(m, m_t2)
 *     l_by: f32[i0, i1] fragment = map exp(m - m1)
 *     l = map l * l_by
 *     p: f32[i0, i1, r1] fragment = map exp(where_t_in * 0.125 - m1)
 *     p_in: f32[i0, i1, r1] fragment = map where(idx(r1) < 200, p, 0.0)
 *     p_n: f16[i0, i1, r1] fragment = map cast(f16, p_in)
 *     o = map o * l_by
 *     in2_t: f16[i0, i2, r1] block = copy in2
 *     o += mma p_n, in2_t
 *     l = mma p_n, l_ones
 *     m = map m1
 *   r: f32[i0, i1, i2] fragment = map o / l
 *   cast_t: f16[i0, i1, i2] fragment = map cast(f16, r)
 *   store out0 = cast_t
 *
 * queue cube.MTE2 -> cube.MTE1 [in0_t] each tile, 1 slots
 * queue cube.MTE2 -> cube.MTE1 [in1_t, in2_t] each r1, 5 slots
 * queue cube.MTE1 -> cube.M [in0_t_a, in1_t_b] each r1, 2 slots
 * queue cube.M -> cube.FIX [acc] each r1, 2 slots
 * queue cube.FIX -> vector.MTE2 [acc_m] each r1, 2 slots
 * queue vector.MTE3 -> cube.MTE2 [p_n_m] each r1, 3 slots
 * queue cube.MTE2 -> cube.MTE1 [p_n] each r1, 2 slots
 * queue cube.MTE1 -> cube.M [p_n_a, in2_t_b, l_ones_b] each r1, 2 slots
 * queue cube.M -> cube.FIX [o_part, l_part] each r1, 2 slots
 * queue cube.FIX -> vector.MTE2 [o_part_m, l_part_m] each r1, 2 slots
 * queue vector.MTE2 -> vector.V [acc_in] each r1, 2 slots
 * queue vector.V -> vector.MTE3 [p_n_out] each r1, 2 slots
 * queue vector.MTE2 -> vector.V [o_part_in, l_part_in] each r1, 2 slots
 * queue vector.V -> vector.MTE3 [out0_out] each tile, 2 slots
 * l1: 96256 of 524032 bytes
 * l0a: 16384 of 65536 bytes
 * l0b: 36864 of 65536 bytes
 * l0c: 36864 of 131072 bytes
 * ub: 43520 of 188160 bytes
 */
extern "C" __global__ __aicore__ void k_matmul_softmax_weighted_sum_iota_ge_2more(GM_ADDR in0, GM_ADDR in1, GM_ADDR in2, GM_ADDR out0, GM_ADDR scratch) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
  GlobalTensor<half> in0_g;
  in0_g.SetGlobalBuffer((__gm__ half *)in0);
  GlobalTensor<half> in1_g;
  in1_g.SetGlobalBuffer((__gm__ half *)in1);
  GlobalTensor<half> in2_g;
  in2_g.SetGlobalBuffer((__gm__ half *)in2);
  GlobalTensor<half> out0_g;
  out0_g.SetGlobalBuffer((__gm__ half *)out0);
  GlobalTensor<float> acc_m_g;
  acc_m_g.SetGlobalBuffer((__gm__ float *)(scratch + 0));
  GlobalTensor<half> p_n_m_g;
  p_n_m_g.SetGlobalBuffer((__gm__ half *)(scratch + 229376));
  GlobalTensor<float> o_part_m_g;
  o_part_m_g.SetGlobalBuffer((__gm__ float *)(scratch + 401408));
  GlobalTensor<float> l_part_m_g;
  l_part_m_g.SetGlobalBuffer((__gm__ float *)(scratch + 630784));
  if ASCEND_IS_AIC {
    TPipe pipe;
    TBuf<TPosition::A1> l1;
    pipe.InitBuffer(l1, 96256);
    TBuf<TPosition::A2> l0a;
    pipe.InitBuffer(l0a, 16384);
    TBuf<TPosition::B2> l0b;
    pipe.InitBuffer(l0b, 36864);
    TBuf<TPosition::CO1> l0c;
    pipe.InitBuffer(l0c, 36864);
    pipe.Destroy();
    const LocalTensor<half> l_ones = l1.GetWithOffset<half>(1024, 4096);
    ac_ones(l_ones, 64);
    SetFlag<HardEvent::MTE2_MTE1>(0);
    WaitFlag<HardEvent::MTE2_MTE1>(0);
    const uint32_t group = GetBlockIdx();
    uint32_t round = 0, r1_round = 0;
    SetFlag<HardEvent::FIX_M>(2);
    SetFlag<HardEvent::FIX_M>(3);
    SetFlag<HardEvent::M_MTE1>(2);
    SetFlag<HardEvent::M_MTE1>(3);
    SetFlag<HardEvent::MTE1_MTE2>(6);
    SetFlag<HardEvent::MTE1_MTE2>(7);
    CrossCoreSetFlag<2, PIPE_MTE2>(7);
    CrossCoreSetFlag<2, PIPE_MTE2>(8);
    CrossCoreSetFlag<2, PIPE_MTE2>(9);
    SetFlag<HardEvent::FIX_M>(0);
    SetFlag<HardEvent::FIX_M>(1);
    SetFlag<HardEvent::M_MTE1>(0);
    SetFlag<HardEvent::M_MTE1>(1);
    SetFlag<HardEvent::MTE1_MTE2>(1);
    SetFlag<HardEvent::MTE1_MTE2>(2);
    SetFlag<HardEvent::MTE1_MTE2>(3);
    SetFlag<HardEvent::MTE1_MTE2>(4);
    SetFlag<HardEvent::MTE1_MTE2>(5);
    SetFlag<HardEvent::MTE1_MTE2>(0);
    for (uint32_t tile = group; tile < 14; tile += GetBlockNum(), ++round) {
      const uint32_t s_i1 = tile % 7 * 32;
      const uint32_t n_i1 = s_i1 + 32 <= 200 ? 32 : 200 - s_i1;
      const uint32_t s_i0 = tile / 7 * 1;
      const LocalTensor<half> in0_t = l1.GetWithOffset<half>(2048, 0);
      WaitFlag<HardEvent::MTE1_MTE2>(0);
      ac_to_l1(in0_t, in0_g[12800ull * s_i0 + 64ull * s_i1], n_i1, 64, 64, 32);
      SetFlag<HardEvent::MTE2_MTE1>(0);
      WaitFlag<HardEvent::MTE2_MTE1>(0);
      for (uint32_t r1 = 0; r1 < ac_least(4, (s_i1 + n_i1 + 63) / 64) + 3; ++r1, ++r1_round) {
        if (r1 < ac_least(4, (s_i1 + n_i1 + 63) / 64)) {
          const uint32_t s_r1 = r1 * 64;
          const uint32_t n_r1 = s_r1 + 64 <= 200 ? 64 : 200 - s_r1;
          const LocalTensor<half> in1_t = l1.GetWithOffset<half>(4096, 6144 + r1_round % 5 * 8192);
          const LocalTensor<half> in0_t_a = l0a.GetWithOffset<half>(2048, r1_round % 2 * 4096);
          const LocalTensor<half> in1_t_b = l0b.GetWithOffset<half>(4096, r1_round % 2 * 8192);
          const LocalTensor<float> acc = l0c.GetWithOffset<float>(2048, r1_round % 2 * 8192);
          const LocalTensor<half> p_n = l1.GetWithOffset<half>(2048, 47104 + r1_round % 2 * 4096);
          const LocalTensor<half> in2_t = l1.GetWithOffset<half>(4096, 55296 + r1_round % 5 * 8192);
          const LocalTensor<half> p_n_a = l0a.GetWithOffset<half>(2048, 8192 + r1_round % 2 * 4096);
          const LocalTensor<half> in2_t_b = l0b.GetWithOffset<half>(4096, 16384 + r1_round % 2 * 8192);
          const LocalTensor<float> o_part = l0c.GetWithOffset<float>(2048, 16384 + r1_round % 2 * 8192);
          const LocalTensor<half> l_ones_b = l0b.GetWithOffset<half>(1024, 32768 + r1_round % 2 * 2048);
          const LocalTensor<float> l_part = l0c.GetWithOffset<float>(512, 32768 + r1_round % 2 * 2048);
          WaitFlag<HardEvent::MTE1_MTE2>(1 + r1_round % 5);
          ac_to_l1(in1_t, in1_g[12800ull * s_i0 + 64ull * s_r1], n_r1, 64, 64, 64);
          ac_to_l1_summed(in2_t, in2_g[12800ull * s_i0 + 64ull * s_r1], n_r1, 64, 64, 64);
          SetFlag<HardEvent::MTE2_MTE1>(1 + r1_round % 5);
        }
        if (r1 >= 1 && r1 < ac_least(4, (s_i1 + n_i1 + 63) / 64) + 1) {
          const uint32_t r1_now = r1, r1_round_now = r1_round;
          {
          const uint32_t r1 = r1_now - 1, r1_round = r1_round_now - 1;
          const uint32_t s_r1 = r1 * 64;
          const uint32_t n_r1 = s_r1 + 64 <= 200 ? 64 : 200 - s_r1;
          const LocalTensor<half> in1_t = l1.GetWithOffset<half>(4096, 6144 + r1_round % 5 * 8192);
          const LocalTensor<half> in0_t_a = l0a.GetWithOffset<half>(2048, r1_round % 2 * 4096);
          const LocalTensor<half> in1_t_b = l0b.GetWithOffset<half>(4096, r1_round % 2 * 8192);
          const LocalTensor<float> acc = l0c.GetWithOffset<float>(2048, r1_round % 2 * 8192);
          const LocalTensor<half> p_n = l1.GetWithOffset<half>(2048, 47104 + r1_round % 2 * 4096);
          const LocalTensor<half> in2_t = l1.GetWithOffset<half>(4096, 55296 + r1_round % 5 * 8192);
          const LocalTensor<half> p_n_a = l0a.GetWithOffset<half>(2048, 8192 + r1_round % 2 * 4096);
          const LocalTensor<half> in2_t_b = l0b.GetWithOffset<half>(4096, 16384 + r1_round % 2 * 8192);
          const LocalTensor<float> o_part = l0c.GetWithOffset<float>(2048, 16384 + r1_round % 2 * 8192);
          const LocalTensor<half> l_ones_b = l0b.GetWithOffset<half>(1024, 32768 + r1_round % 2 * 2048);
          const LocalTensor<float> l_part = l0c.GetWithOffset<float>(512, 32768 + r1_round % 2 * 2048);
          WaitFlag<HardEvent::M_MTE1>(r1_round % 2);
          ac_to_l0a(in0_t_a, in0_t, ac_whole(n_i1), 64, 32);
          WaitFlag<HardEvent::MTE2_MTE1>(1 + r1_round % 5);
          ac_to_l0b(in1_t_b, in1_t, ac_whole(n_r1), 64, 64);
          SetFlag<HardEvent::MTE1_M>(r1_round % 2);
          WaitFlag<HardEvent::MTE1_M>(r1_round % 2);
          WaitFlag<HardEvent::FIX_M>(r1_round % 2);
          PipeBarrier<PIPE_M>();
          ac_mmad(acc, in0_t_a, in1_t_b, n_i1, n_r1, 64, true);
          SetFlag<HardEvent::M_FIX>(r1_round % 2);
          SetFlag<HardEvent::M_MTE1>(r1_round % 2);
          WaitFlag<HardEvent::M_FIX>(r1_round % 2);
          CrossCoreWaitFlag(2 + r1_round % 2);
          ac_fixpipe(acc_m_g[(group * 2 + r1_round % 2) * 2048ull], acc, n_i1, n_r1, 64);
          CrossCoreSetFlag<2, PIPE_FIX>(r1_round % 2);
          SetFlag<HardEvent::FIX_M>(r1_round % 2);
          }
        }
        if (r1 >= 3) {
          const uint32_t r1_now = r1, r1_round_now = r1_round;
          {
          const uint32_t r1 = r1_now - 3, r1_round = r1_round_now - 3;
          const uint32_t s_r1 = r1 * 64;
          const uint32_t n_r1 = s_r1 + 64 <= 200 ? 64 : 200 - s_r1;
          const LocalTensor<half> in1_t = l1.GetWithOffset<half>(4096, 6144 + r1_round % 5 * 8192);
          const LocalTensor<half> in0_t_a = l0a.GetWithOffset<half>(2048, r1_round % 2 * 4096);
          const LocalTensor<half> in1_t_b = l0b.GetWithOffset<half>(4096, r1_round % 2 * 8192);
          const LocalTensor<float> acc = l0c.GetWithOffset<float>(2048, r1_round % 2 * 8192);
          const LocalTensor<half> p_n = l1.GetWithOffset<half>(2048, 47104 + r1_round % 2 * 4096);
          const LocalTensor<half> in2_t = l1.GetWithOffset<half>(4096, 55296 + r1_round % 5 * 8192);
          const LocalTensor<half> p_n_a = l0a.GetWithOffset<half>(2048, 8192 + r1_round % 2 * 4096);
          const LocalTensor<half> in2_t_b = l0b.GetWithOffset<half>(4096, 16384 + r1_round % 2 * 8192);
          const LocalTensor<float> o_part = l0c.GetWithOffset<float>(2048, 16384 + r1_round % 2 * 8192);
          const LocalTensor<half> l_ones_b = l0b.GetWithOffset<half>(1024, 32768 + r1_round % 2 * 2048);
          const LocalTensor<float> l_part = l0c.GetWithOffset<float>(512, 32768 + r1_round % 2 * 2048);
          CrossCoreWaitFlag(4 + r1_round % 3);
          WaitFlag<HardEvent::MTE1_MTE2>(6 + r1_round % 2);
          ac_to_l1(p_n, p_n_m_g[(group * 3 + r1_round % 3) * 2048ull], n_i1, n_r1, 64, 32);
          SetFlag<HardEvent::MTE2_MTE1>(6 + r1_round % 2);
          CrossCoreSetFlag<2, PIPE_MTE2>(7 + r1_round % 3);
          WaitFlag<HardEvent::MTE2_MTE1>(6 + r1_round % 2);
          WaitFlag<HardEvent::M_MTE1>(2 + r1_round % 2);
          ac_to_l0a(p_n_a, p_n, ac_whole(n_i1), ac_whole(n_r1), 32);
          SetFlag<HardEvent::MTE1_MTE2>(6 + r1_round % 2);
          ac_to_l0b_turned(in2_t_b, in2_t, 64, ac_whole(n_r1), 64);
          SetFlag<HardEvent::MTE1_MTE2>(1 + r1_round % 5);
          ac_to_l0b_turned(l_ones_b, l_ones, 16, ac_whole(n_r1), 64);
          SetFlag<HardEvent::MTE1_M>(2 + r1_round % 2);
          WaitFlag<HardEvent::MTE1_M>(2 + r1_round % 2);
          WaitFlag<HardEvent::FIX_M>(2 + r1_round % 2);
          PipeBarrier<PIPE_M>();
          ac_mmad(o_part, p_n_a, in2_t_b, n_i1, 64, n_r1, true);
          ac_mmad(l_part, p_n_a, l_ones_b, n_i1, 16, n_r1, true);
          SetFlag<HardEvent::M_FIX>(2 + r1_round % 2);
          SetFlag<HardEvent::M_MTE1>(2 + r1_round % 2);
          WaitFlag<HardEvent::M_FIX>(2 + r1_round % 2);
          CrossCoreWaitFlag(12 + r1_round % 2);
          ac_fixpipe(o_part_m_g[(group * 2 + r1_round % 2) * 2048ull], o_part, n_i1, 64, 64);
          ac_fixpipe(l_part_m_g[(group * 2 + r1_round % 2) * 256ull], l_part, n_i1, 8, 8);
          CrossCoreSetFlag<2, PIPE_FIX>(10 + r1_round % 2);
          SetFlag<HardEvent::FIX_M>(2 + r1_round % 2);
          }
        }
      }
      r1_round -= 3;
      SetFlag<HardEvent::MTE1_MTE2>(0);
    }
    WaitFlag<HardEvent::MTE1_MTE2>(0);
    WaitFlag<HardEvent::MTE1_MTE2>(1);
    WaitFlag<HardEvent::MTE1_MTE2>(2);
    WaitFlag<HardEvent::MTE1_MTE2>(3);
    WaitFlag<HardEvent::MTE1_MTE2>(4);
    WaitFlag<HardEvent::MTE1_MTE2>(5);
    WaitFlag<HardEvent::M_MTE1>(0);
    WaitFlag<HardEvent::M_MTE1>(1);
    WaitFlag<HardEvent::FIX_M>(0);
    WaitFlag<HardEvent::FIX_M>(1);
    CrossCoreWaitFlag(2);
    CrossCoreWaitFlag(3);
    WaitFlag<HardEvent::MTE1_MTE2>(6);
    WaitFlag<HardEvent::MTE1_MTE2>(7);
    WaitFlag<HardEvent::M_MTE1>(2);
    WaitFlag<HardEvent::M_MTE1>(3);
    WaitFlag<HardEvent::FIX_M>(2);
    WaitFlag<HardEvent::FIX_M>(3);
    CrossCoreWaitFlag(12);
    CrossCoreWaitFlag(13);
  }
  if ASCEND_IS_AIV {
    TPipe pipe;
    TBuf<TPosition::VECCALC> ub;
    pipe.InitBuffer(ub, 43520);
    pipe.Destroy();
    const uint32_t group = GetBlockIdx() / 2;
    uint32_t round = 0, r1_round = 0;
    SetFlag<HardEvent::MTE3_V>(2);
    SetFlag<HardEvent::MTE3_V>(3);
    SetFlag<HardEvent::V_MTE2>(2);
    SetFlag<HardEvent::V_MTE2>(3);
    SetFlag<HardEvent::MTE3_V>(0);
    SetFlag<HardEvent::MTE3_V>(1);
    SetFlag<HardEvent::V_MTE2>(0);
    SetFlag<HardEvent::V_MTE2>(1);
    CrossCoreSetFlag<2, PIPE_MTE2>(12);
    CrossCoreSetFlag<2, PIPE_MTE2>(13);
    CrossCoreSetFlag<2, PIPE_MTE2>(2);
    CrossCoreSetFlag<2, PIPE_MTE2>(3);
    for (uint32_t tile = group; tile < 14; tile += GetBlockNum(), ++round) {
      const uint32_t s_i1 = tile % 7 * 32;
      const uint32_t n_i1 = s_i1 + 32 <= 200 ? 32 : 200 - s_i1;
      const uint32_t s_i0 = tile / 7 * 1;
      const uint32_t sub = GetSubBlockIdx();
      const uint32_t own = (n_i1 + 1 - sub) / 2;
      const uint32_t w_row = sub * ((n_i1 + 1) / 2);
      const uint32_t o_row = s_i1 + w_row;
      const uint32_t c_row = own;
      const ac_f32 m1 = ac_at<float>(ub, 512, 0);
      const ac_f32 l2 = ac_at<float>(ub, 512, 512);
      const ac_f32 o3 = ac_at<float>(ub, 4096, 1024);
      const LocalTensor<half> out0_out = ac_at<half>(ub, 2048, 39424 + round % 2 * 2048);
      PipeBarrier<PIPE_V>();
      Duplicate(m1, -3.40282347e+38f, 128);
      Duplicate(l2, 0.0f, 128);
      Duplicate(o3, 0.0f, 1024);
      for (uint32_t r1 = 0; r1 < ac_least(4, (s_i1 + n_i1 + 63) / 64) + 2; ++r1, ++r1_round) {
        if (r1 < ac_least(4, (s_i1 + n_i1 + 63) / 64)) {
          const uint32_t s_r1 = r1 * 64;
          const uint32_t n_r1 = s_r1 + 64 <= 200 ? 64 : 200 - s_r1;
          const LocalTensor<float> acc_in = ac_at<float>(ub, 4096, 5376 + r1_round % 2 * 4096);
          const ac_f32 t4 = ac_at<float>(ub, 4096, 13824);
          const ac_f32 t5 = ac_at<float>(ub, 256, 17920);
          const ac_f32 t6 = ac_at<float>(ub, 512, 18432);
          const ac_f32 t7 = ac_at<float>(ub, 512, 18944);
          const LocalTensor<uint8_t> mask8 = ac_at<uint8_t>(ub, 128, 19456);
          const ac_f32 t9 = ac_at<float>(ub, 4096, 13824);
          const ac_f32 m_t10 = ac_at<float>(ub, 512, 18944);
          const ac_f32 t11 = ac_at<float>(ub, 512, 18432);
          const ac_f32 t12 = ac_at<float>(ub, 256, 17920);
          const ac_f32 t13 = ac_at<float>(ub, 512, 18432);
          const ac_f32 t14 = ac_at<float>(ub, 512, 18944);
          const LocalTensor<float> l_by_kept = ac_at<float>(ub, 512, 19968 + r1_round % 3 * 512);
          const ac_f32 t15 = ac_at<float>(ub, 512, 18432);
          const ac_f32 t16 = ac_at<float>(ub, 4096, 21504);
          const LocalTensor<half> p_n_out = ac_at<half>(ub, 2048, 25600 + r1_round % 2 * 2048);
          const LocalTensor<float> o_part_in = ac_at<float>(ub, 4096, 29952 + r1_round % 2 * 4096);
          const LocalTensor<float> l_part_in = ac_at<float>(ub, 512, 38400 + r1_round % 2 * 512);
          CrossCoreWaitFlag(r1_round % 2);
          WaitFlag<HardEvent::V_MTE2>(r1_round % 2);
          if (own) {
            DataCopyPad(acc_in[0], acc_m_g[(group * 2 + r1_round % 2) * 2048ull + 64 * w_row], ac_copy(c_row, n_r1 * 4, (64 - n_r1) * 4, (256 - (n_r1 * 4 + 31) / 32 * 32) / 32), {false, 0, 0, 0});
          }
          SetFlag<HardEvent::MTE2_V>(r1_round % 2);
          CrossCoreSetFlag<2, PIPE_MTE2>(2 + r1_round % 2);
          PipeBarrier<PIPE_V>();
          ac_steps(t5, float(1 * int32_t(o_row) + -1 * int32_t(s_r1) + 0), -1.0f, 64);
          Duplicate(t4, 0.0f, 1024);
          PipeBarrier<PIPE_V>();
          ac_Add_line(t4, t4, t5, 16, 64);
          ac_steps(t6, 0.0f, 1.0f, 16);
          PipeBarrier<PIPE_V>();
          ac_widen(t7, t6, 16);
          PipeBarrier<PIPE_V>();
          ac_Add_stat(t4, t4, t7, 16, 64);
          PipeBarrier<PIPE_V>();
          CompareScalar(mask8, t4, 0.0f, CMPMODE::GE, 1024);
          WaitFlag<HardEvent::MTE2_V>(r1_round % 2);
          PipeBarrier<PIPE_V>();
          Select(t9, mask8, acc_in, (-1.0f / 0.0f), SELMODE::VSEL_TENSOR_SCALAR_MODE, 1024);
          SetFlag<HardEvent::V_MTE2>(r1_round % 2);
          PipeBarrier<PIPE_V>();
          ac_row_max(m_t10, t9, t11, t12, 16, 16, n_r1, 64);
          PipeBarrier<PIPE_V>();
          Muls(t13, m_t10, 0.125f, 128);
          PipeBarrier<PIPE_V>();
          Max(t14, m1, t13, 128);
          PipeBarrier<PIPE_V>();
          Sub(t15, m1, t14, 128);
          PipeBarrier<PIPE_V>();
          Exp(l_by_kept, t15, 128);
          ac_scaled_less(t16, t9, t14, 0.125f, 16, 64, 1024);
          PipeBarrier<PIPE_V>();
          Exp(t16, t16, 1024);
          WaitFlag<HardEvent::MTE3_V>(r1_round % 2);
          PipeBarrier<PIPE_V>();
          Cast(p_n_out, t16, RoundMode::CAST_RINT, 1024);
          SetFlag<HardEvent::V_MTE3>(r1_round % 2);
          CrossCoreWaitFlag(7 + r1_round % 3);
          WaitFlag<HardEvent::V_MTE3>(r1_round % 2);
          if (own) {
            DataCopyPad(p_n_m_g[(group * 3 + r1_round % 3) * 2048ull + 64 * w_row], p_n_out[0], ac_copy(c_row, n_r1 * 2, (128 - (n_r1 * 2 + 31) / 32 * 32) / 32, (64 - n_r1) * 2));
          }
          SetFlag<HardEvent::MTE3_V>(r1_round % 2);
          CrossCoreSetFlag<2, PIPE_MTE3>(4 + r1_round % 3);
          Adds(m1, t14, 0.0f, 128);
        }
        if (r1 >= 2) {
          const uint32_t r1_now = r1, r1_round_now = r1_round;
          {
          const uint32_t r1 = r1_now - 2, r1_round = r1_round_now - 2;
          const uint32_t s_r1 = r1 * 64;
          const uint32_t n_r1 = s_r1 + 64 <= 200 ? 64 : 200 - s_r1;
          const LocalTensor<float> acc_in = ac_at<float>(ub, 4096, 5376 + r1_round % 2 * 4096);
          const ac_f32 t4 = ac_at<float>(ub, 4096, 13824);
          const ac_f32 t5 = ac_at<float>(ub, 256, 17920);
          const ac_f32 t6 = ac_at<float>(ub, 512, 18432);
          const ac_f32 t7 = ac_at<float>(ub, 512, 18944);
          const LocalTensor<uint8_t> mask8 = ac_at<uint8_t>(ub, 128, 19456);
          const ac_f32 t9 = ac_at<float>(ub, 4096, 13824);
          const ac_f32 m_t10 = ac_at<float>(ub, 512, 18944);
          const ac_f32 t11 = ac_at<float>(ub, 512, 18432);
          const ac_f32 t12 = ac_at<float>(ub, 256, 17920);
          const ac_f32 t13 = ac_at<float>(ub, 512, 18432);
          const ac_f32 t14 = ac_at<float>(ub, 512, 18944);
          const LocalTensor<float> l_by_kept = ac_at<float>(ub, 512, 19968 + r1_round % 3 * 512);
          const ac_f32 t15 = ac_at<float>(ub, 512, 18432);
          const ac_f32 t16 = ac_at<float>(ub, 4096, 21504);
          const LocalTensor<half> p_n_out = ac_at<half>(ub, 2048, 25600 + r1_round % 2 * 2048);
          const LocalTensor<float> o_part_in = ac_at<float>(ub, 4096, 29952 + r1_round % 2 * 4096);
          const LocalTensor<float> l_part_in = ac_at<float>(ub, 512, 38400 + r1_round % 2 * 512);
          CrossCoreWaitFlag(10 + r1_round % 2);
          WaitFlag<HardEvent::V_MTE2>(2 + r1_round % 2);
          if (own) {
            DataCopyPad(o_part_in[0], o_part_m_g[(group * 2 + r1_round % 2) * 2048ull + 64 * w_row], ac_copy(c_row, 64 * 4, (64 - 64) * 4, (256 - (64 * 4 + 31) / 32 * 32) / 32), {false, 0, 0, 0});
          }
          if (own) {
            DataCopyPad(l_part_in, l_part_m_g[(group * 2 + r1_round % 2) * 256ull + 8 * w_row], ac_copy(1, c_row * 32, 0, 0), {false, 0, 0, 0});
          }
          SetFlag<HardEvent::MTE2_V>(2 + r1_round % 2);
          CrossCoreSetFlag<2, PIPE_MTE2>(12 + r1_round % 2);
          WaitFlag<HardEvent::MTE2_V>(2 + r1_round % 2);
          PipeBarrier<PIPE_V>();
          ac_scaled_sum(o3, l_by_kept, o_part_in, 16, 64);
          ac_scaled_add(l2, l_by_kept, l_part_in, 128);
          SetFlag<HardEvent::V_MTE2>(2 + r1_round % 2);
          }
        }
      }
      r1_round -= 2;
      PipeBarrier<PIPE_V>();
      ac_Div_stat(o3, o3, l2, 16, 64);
      WaitFlag<HardEvent::MTE3_V>(2 + round % 2);
      PipeBarrier<PIPE_V>();
      Cast(out0_out, o3, RoundMode::CAST_RINT, 1024);
      SetFlag<HardEvent::V_MTE3>(2 + round % 2);
      WaitFlag<HardEvent::V_MTE3>(2 + round % 2);
      if (own) {
        DataCopyPad(out0_g[12800ull * s_i0 + 64ull * o_row], out0_out[0], ac_copy(c_row, 64 * 2, (128 - (64 * 2 + 31) / 32 * 32) / 32, (64 - 64) * 2));
      }
      SetFlag<HardEvent::MTE3_V>(2 + round % 2);
    }
    CrossCoreWaitFlag(7);
    CrossCoreWaitFlag(8);
    CrossCoreWaitFlag(9);
    WaitFlag<HardEvent::V_MTE2>(0);
    WaitFlag<HardEvent::V_MTE2>(1);
    WaitFlag<HardEvent::MTE3_V>(0);
    WaitFlag<HardEvent::MTE3_V>(1);
    WaitFlag<HardEvent::V_MTE2>(2);
    WaitFlag<HardEvent::V_MTE2>(3);
    WaitFlag<HardEvent::MTE3_V>(2);
    WaitFlag<HardEvent::MTE3_V>(3);
  }
}
