#include "autocomp_ascend.h"
#include "autocomp_ascend_cube.h"

/*
 * matmul_softmax_weighted_sum_iota_ge_2more: iota iota ge transpose matmul mul where softmax_weighted_sum
 * schedule: tile i0 1, i1 32, i2 64, r1 128 | stages 3 | softmax_overlap 1 | persistent | mma_row_sums | half_scores
 * predicted: 9.24 us, bound by launch, 1% of the roofline
 * rule: monoids/online-softmax-half: made softmax_weighted_sum f16[1, 2, 200, 64]
 * rule: fusion/map-into-map: iota into operand 0 of ge
 * rule: fusion/map-into-map: iota into operand 1 of ge
 * rule: fusion/epilogue: matmul into operand 0 of mul
 * rule: fusion/map-into-map: ge into operand 0 of where
 * rule: fusion/epilogue: mul into operand 1 of where
 * rule: fusion/scores-into-online: where into operand 0 of softmax_weighted_sum
 * rule: tiling/npu-online-joined: the schedule
 *
 * kernel matmul_softmax_weighted_sum_iota_ge_2more(in0: f16[i0:2, i1:200, r0:64], in1: f16[i0:2, r0:64, r1:200] of in1[2, 200, 64] at [i0, r1, r0], in2: f16[i0:2, i2:64, r1:200] of in2[2, 200, 64] at [i0, r1, i2]) -> out0: f16[i0:2, i1:200, i2:64]
 * axes i0=2 i1=200 i2=64 r0=64 r1=200
 * tile i0=1 i1=32 r1=128
 * grid i0, i1 persistent=yes
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
 * queue cube.MTE2 -> cube.MTE1 [in0_t] each tile, 2 slots
 * queue cube.MTE2 -> cube.MTE1 [in1_t, in2_t] each r1, 5 slots
 * queue cube.MTE1 -> cube.M [in0_t_a] each tile, 1 slots
 * queue cube.MTE1 -> cube.M [in1_t_b] each r1_columns, 2 slots
 * queue cube.M -> cube.FIX [acc] each r1_columns, 2 slots
 * queue cube.FIX -> vector.MTE2 [acc_m] each r1, 2 slots
 * queue vector.MTE3 -> cube.MTE2 [p_n_m] each r1, 3 slots
 * queue cube.MTE2 -> cube.MTE1 [p_n] each r1, 1 slots
 * queue cube.MTE1 -> cube.M [p_n_a, in2_t_b] each r1_part, 2 slots
 * queue cube.M -> cube.FIX [o_part] each r1, 2 slots
 * queue cube.FIX -> vector.MTE2 [o_part_m] each r1, 2 slots
 * queue vector.MTE2 -> vector.MTE3 [acc_in] each r1, 2 slots
 * queue vector.MTE2 -> vector.V [acc_in] each r1, 2 slots
 * queue vector.V -> vector.MTE3 [p_n_out] each r1, 2 slots
 * queue vector.MTE2 -> vector.V [o_part_in, l_part_in] each r1, 2 slots
 * queue vector.V -> vector.MTE3 [out0_out] each tile, 2 slots
 * l1: 184320 of 524032 bytes
 * l0c: 36864 of 131072 bytes
 * l0a: 12288 of 65536 bytes
 * l0b: 34816 of 65536 bytes
 * ub: 34304 of 188160 bytes
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
  GlobalTensor<half> acc_m_g;
  acc_m_g.SetGlobalBuffer((__gm__ half *)(scratch + 0));
  GlobalTensor<half> p_n_m_g;
  p_n_m_g.SetGlobalBuffer((__gm__ half *)(scratch + 229376));
  GlobalTensor<float> o_part_m_g;
  o_part_m_g.SetGlobalBuffer((__gm__ float *)(scratch + 573440));
  if ASCEND_IS_AIC {
    TPipe pipe;
    TBuf<TPosition::A1> l1;
    pipe.InitBuffer(l1, 184320);
    TBuf<TPosition::CO1> l0c;
    pipe.InitBuffer(l0c, 36864);
    TBuf<TPosition::A2> l0a;
    pipe.InitBuffer(l0a, 12288);
    TBuf<TPosition::B2> l0b;
    pipe.InitBuffer(l0b, 34816);
    pipe.Destroy();
    const LocalTensor<half> l_ones = l1.GetWithOffset<half>(2048, 8192);
    ac_ones(l_ones, 128);
    SetFlag<HardEvent::MTE2_MTE1>(0);
    WaitFlag<HardEvent::MTE2_MTE1>(0);
    const LocalTensor<half> l_ones_b = l0b.GetWithOffset<half>(1024, 32768);
    ac_to_l0b_turned(l_ones_b, l_ones, 16, 64, 128);
    SetFlag<HardEvent::MTE1_M>(0);
    WaitFlag<HardEvent::MTE1_M>(0);
    const uint32_t group = GetBlockIdx();
    uint32_t r1_columns_round = 0, r1_part_round = 0;
    SetFlag<HardEvent::FIX_M>(2);
    SetFlag<HardEvent::FIX_M>(3);
    SetFlag<HardEvent::M_MTE1>(3);
    SetFlag<HardEvent::M_MTE1>(4);
    SetFlag<HardEvent::MTE1_MTE2>(7);
    CrossCoreSetFlag<2, PIPE_MTE2>(7);
    CrossCoreSetFlag<2, PIPE_MTE2>(8);
    CrossCoreSetFlag<2, PIPE_MTE2>(9);
    SetFlag<HardEvent::FIX_M>(0);
    SetFlag<HardEvent::FIX_M>(1);
    SetFlag<HardEvent::M_MTE1>(1);
    SetFlag<HardEvent::M_MTE1>(2);
    SetFlag<HardEvent::M_MTE1>(0);
    SetFlag<HardEvent::MTE1_MTE2>(2);
    SetFlag<HardEvent::MTE1_MTE2>(3);
    SetFlag<HardEvent::MTE1_MTE2>(4);
    SetFlag<HardEvent::MTE1_MTE2>(5);
    SetFlag<HardEvent::MTE1_MTE2>(6);
    SetFlag<HardEvent::MTE1_MTE2>(0);
    SetFlag<HardEvent::MTE1_MTE2>(1);
    uint32_t tile_0 = group, round_0 = 0, r1_0 = 0, tile_1 = group, round_1 = 0, r1_1 = 0, tile_3 = group, round_3 = 0, r1_3 = 0;
    for (uint32_t step = 0; tile_3 < 14; ++step) {
      if (tile_0 < 14) {
        const uint32_t tile = tile_0, round = round_0, r1 = r1_0, r1_round = step - 0;
        const uint32_t s_i0 = tile % 2 * 1;
        const uint32_t s_i1 = (6 - tile / 2) * 32;
        const uint32_t n_i1 = s_i1 + 32 <= 200 ? 32 : 200 - s_i1;
        const uint32_t r1_end = ac_least(2, (s_i1 + n_i1 + 127) / 128);
        const bool first = r1 == 0, last = r1 + 1 == r1_end;
        const uint32_t s_r1 = r1 * 128;
        const uint32_t n_r1 = s_r1 + 128 <= 200 ? 128 : 200 - s_r1;
        const LocalTensor<half> in0_t = l1.GetWithOffset<half>(2048, round % 2 * 4096);
        const LocalTensor<half> in0_t_a = l0a.GetWithOffset<half>(2048, 0);
        const LocalTensor<half> in1_t = l1.GetWithOffset<half>(8192, 12288 + r1_round % 5 * 16384);
        const LocalTensor<half> p_n = l1.GetWithOffset<half>(4096, 94208);
        const LocalTensor<half> in2_t = l1.GetWithOffset<half>(8192, 102400 + r1_round % 5 * 16384);
        const LocalTensor<float> o_part = l0c.GetWithOffset<float>(2560, 16384 + r1_round % 2 * 10240);
        if (first) {
          WaitFlag<HardEvent::MTE1_MTE2>(round % 2);
          ac_to_l1(in0_t, in0_g[12800ull * s_i0 + 64ull * s_i1], n_i1, 64, 64, 32);
          SetFlag<HardEvent::MTE2_MTE1>(round % 2);
        }
        WaitFlag<HardEvent::MTE1_MTE2>(2 + r1_round % 5);
        ac_to_l1(in1_t, in1_g[12800ull * s_i0 + 64ull * s_r1], n_r1, 64, 64, 128);
        ac_to_l1_summed(in2_t, in2_g[12800ull * s_i0 + 64ull * s_r1], n_r1, 64, 64, 128);
        SetFlag<HardEvent::MTE2_MTE1>(2 + r1_round % 5);
        if (++r1_0 == r1_end) r1_0 = 0, ++round_0, tile_0 += GetBlockNum();
      }
      if (step >= 1 && tile_1 < 14) {
        const uint32_t tile = tile_1, round = round_1, r1 = r1_1, r1_round = step - 1;
        const uint32_t s_i0 = tile % 2 * 1;
        const uint32_t s_i1 = (6 - tile / 2) * 32;
        const uint32_t n_i1 = s_i1 + 32 <= 200 ? 32 : 200 - s_i1;
        const uint32_t r1_end = ac_least(2, (s_i1 + n_i1 + 127) / 128);
        const bool first = r1 == 0, last = r1 + 1 == r1_end;
        const uint32_t s_r1 = r1 * 128;
        const uint32_t n_r1 = s_r1 + 128 <= 200 ? 128 : 200 - s_r1;
        const LocalTensor<half> in0_t = l1.GetWithOffset<half>(2048, round % 2 * 4096);
        const LocalTensor<half> in0_t_a = l0a.GetWithOffset<half>(2048, 0);
        const LocalTensor<half> in1_t = l1.GetWithOffset<half>(8192, 12288 + r1_round % 5 * 16384);
        const LocalTensor<half> p_n = l1.GetWithOffset<half>(4096, 94208);
        const LocalTensor<half> in2_t = l1.GetWithOffset<half>(8192, 102400 + r1_round % 5 * 16384);
        const LocalTensor<float> o_part = l0c.GetWithOffset<float>(2560, 16384 + r1_round % 2 * 10240);
        if (first) {
          WaitFlag<HardEvent::MTE2_MTE1>(round % 2);
          WaitFlag<HardEvent::M_MTE1>(0);
          ac_to_l0a(in0_t_a, in0_t, ac_whole(n_i1), 64, 32);
          SetFlag<HardEvent::MTE1_M>(0);
          SetFlag<HardEvent::MTE1_MTE2>(round % 2);
        }
        WaitFlag<HardEvent::MTE2_MTE1>(2 + r1_round % 5);
        if (first) {
          WaitFlag<HardEvent::MTE1_M>(0);
        }
        CrossCoreWaitFlag(2 + r1_round % 2);
        for (uint32_t r1_columns = 0; r1_columns < ac_whole(n_r1); r1_columns += 64, ++r1_columns_round) {
          const LocalTensor<float> acc = l0c.GetWithOffset<float>(2048, r1_columns_round % 2 * 8192);
          const LocalTensor<half> in1_t_b = l0b.GetWithOffset<half>(4096, r1_columns_round % 2 * 8192);
          WaitFlag<HardEvent::M_MTE1>(1 + r1_columns_round % 2);
          ac_to_l0b(in1_t_b, in1_t[r1_columns * 16], ac_least(64, ac_whole(n_r1) - r1_columns), 64, 128);
          SetFlag<HardEvent::MTE1_M>(1 + r1_columns_round % 2);
          WaitFlag<HardEvent::MTE1_M>(1 + r1_columns_round % 2);
          WaitFlag<HardEvent::FIX_M>(r1_columns_round % 2);
          PipeBarrier<PIPE_M>();
          ac_mmad(acc, in0_t_a, in1_t_b, n_i1, ac_least(64, ac_whole(n_r1) - r1_columns), 64, true);
          SetFlag<HardEvent::M_FIX>(r1_columns_round % 2);
          SetFlag<HardEvent::M_MTE1>(1 + r1_columns_round % 2);
          WaitFlag<HardEvent::M_FIX>(r1_columns_round % 2);
          ac_fixpipe_blocks(acc_m_g[(group * 2 + r1_round % 2) * 4096ull + r1_columns * 32], acc, n_i1, ac_least(64, ac_whole(n_r1) - r1_columns), 32);
          SetFlag<HardEvent::FIX_M>(r1_columns_round % 2);
        }
        CrossCoreSetFlag<2, PIPE_FIX>(r1_round % 2);
        if (last) {
          SetFlag<HardEvent::M_MTE1>(0);
        }
        if (++r1_1 == r1_end) r1_1 = 0, ++round_1, tile_1 += GetBlockNum();
      }
      if (step >= 3 && tile_3 < 14) {
        const uint32_t tile = tile_3, round = round_3, r1 = r1_3, r1_round = step - 3;
        const uint32_t s_i0 = tile % 2 * 1;
        const uint32_t s_i1 = (6 - tile / 2) * 32;
        const uint32_t n_i1 = s_i1 + 32 <= 200 ? 32 : 200 - s_i1;
        const uint32_t r1_end = ac_least(2, (s_i1 + n_i1 + 127) / 128);
        const bool first = r1 == 0, last = r1 + 1 == r1_end;
        const uint32_t s_r1 = r1 * 128;
        const uint32_t n_r1 = s_r1 + 128 <= 200 ? 128 : 200 - s_r1;
        const LocalTensor<half> in0_t = l1.GetWithOffset<half>(2048, round % 2 * 4096);
        const LocalTensor<half> in0_t_a = l0a.GetWithOffset<half>(2048, 0);
        const LocalTensor<half> in1_t = l1.GetWithOffset<half>(8192, 12288 + r1_round % 5 * 16384);
        const LocalTensor<half> p_n = l1.GetWithOffset<half>(4096, 94208);
        const LocalTensor<half> in2_t = l1.GetWithOffset<half>(8192, 102400 + r1_round % 5 * 16384);
        const LocalTensor<float> o_part = l0c.GetWithOffset<float>(2560, 16384 + r1_round % 2 * 10240);
        CrossCoreWaitFlag(4 + r1_round % 3);
        WaitFlag<HardEvent::MTE1_MTE2>(7);
        DataCopy(p_n, p_n_m_g[(group * 3 + r1_round % 3) * 4096ull], 32 * ac_whole(n_r1));
        SetFlag<HardEvent::MTE2_MTE1>(7);
        CrossCoreSetFlag<2, PIPE_MTE2>(7 + r1_round % 3);
        WaitFlag<HardEvent::MTE2_MTE1>(7);
        WaitFlag<HardEvent::FIX_M>(2 + r1_round % 2);
        for (uint32_t r1_part = 0; r1_part < n_r1; r1_part += 64, ++r1_part_round) {
          const LocalTensor<half> p_n_a = l0a.GetWithOffset<half>(2048, 4096 + r1_part_round % 2 * 4096);
          const LocalTensor<half> in2_t_b = l0b.GetWithOffset<half>(4096, 16384 + r1_part_round % 2 * 8192);
          WaitFlag<HardEvent::M_MTE1>(3 + r1_part_round % 2);
          ac_to_l0a(p_n_a, p_n[r1_part * 32], ac_whole(n_i1), ac_whole(ac_least(64, n_r1 - r1_part)), 32);
          ac_to_l0b_turned(in2_t_b, in2_t[r1_part * 16], 64, ac_whole(ac_least(64, n_r1 - r1_part)), 128);
          SetFlag<HardEvent::MTE1_M>(3 + r1_part_round % 2);
          WaitFlag<HardEvent::MTE1_M>(3 + r1_part_round % 2);
          PipeBarrier<PIPE_M>();
          ac_mmad(o_part, p_n_a, in2_t_b, n_i1, 64, ac_least(64, n_r1 - r1_part), r1_part == 0);
          ac_mmad(o_part[ac_whole(n_i1) * 64], p_n_a, l_ones_b, n_i1, 16, ac_least(64, n_r1 - r1_part), r1_part == 0);
          SetFlag<HardEvent::M_MTE1>(3 + r1_part_round % 2);
        }
        SetFlag<HardEvent::M_FIX>(2 + r1_round % 2);
        SetFlag<HardEvent::MTE1_MTE2>(7);
        SetFlag<HardEvent::MTE1_MTE2>(2 + r1_round % 5);
        WaitFlag<HardEvent::M_FIX>(2 + r1_round % 2);
        CrossCoreWaitFlag(12 + r1_round % 2);
        ac_fixpipe(o_part_m_g[(group * 2 + r1_round % 2) * 2560ull], o_part, n_i1, 80, 80);
        CrossCoreSetFlag<2, PIPE_FIX>(10 + r1_round % 2);
        SetFlag<HardEvent::FIX_M>(2 + r1_round % 2);
        if (++r1_3 == r1_end) r1_3 = 0, ++round_3, tile_3 += GetBlockNum();
      }
    }
    WaitFlag<HardEvent::MTE1_MTE2>(0);
    WaitFlag<HardEvent::MTE1_MTE2>(1);
    WaitFlag<HardEvent::MTE1_MTE2>(2);
    WaitFlag<HardEvent::MTE1_MTE2>(3);
    WaitFlag<HardEvent::MTE1_MTE2>(4);
    WaitFlag<HardEvent::MTE1_MTE2>(5);
    WaitFlag<HardEvent::MTE1_MTE2>(6);
    WaitFlag<HardEvent::M_MTE1>(0);
    WaitFlag<HardEvent::M_MTE1>(1);
    WaitFlag<HardEvent::M_MTE1>(2);
    WaitFlag<HardEvent::FIX_M>(0);
    WaitFlag<HardEvent::FIX_M>(1);
    CrossCoreWaitFlag(2);
    CrossCoreWaitFlag(3);
    WaitFlag<HardEvent::MTE1_MTE2>(7);
    WaitFlag<HardEvent::M_MTE1>(3);
    WaitFlag<HardEvent::M_MTE1>(4);
    WaitFlag<HardEvent::FIX_M>(2);
    WaitFlag<HardEvent::FIX_M>(3);
    CrossCoreWaitFlag(12);
    CrossCoreWaitFlag(13);
  }
  if ASCEND_IS_AIV {
    TPipe pipe;
    TBuf<TPosition::VECCALC> ub;
    pipe.InitBuffer(ub, 34304);
    pipe.Destroy();
    const LocalTensor<half> keys_until = ac_at<half>(ub, 512, 17920);
    ac_scores_edge(keys_until, half((-1.0f / 0.0f)), 1, true);
    PipeBarrier<PIPE_V>();
    const uint32_t group = GetBlockIdx() / 2;
    SetFlag<HardEvent::MTE3_V>(2);
    SetFlag<HardEvent::MTE3_V>(3);
    SetFlag<HardEvent::V_MTE2>(2);
    SetFlag<HardEvent::V_MTE2>(3);
    SetFlag<HardEvent::MTE3_V>(0);
    SetFlag<HardEvent::MTE3_V>(1);
    SetFlag<HardEvent::V_MTE2>(0);
    SetFlag<HardEvent::V_MTE2>(1);
    SetFlag<HardEvent::MTE3_MTE2>(0);
    SetFlag<HardEvent::MTE3_MTE2>(1);
    CrossCoreSetFlag<2, PIPE_MTE2>(12);
    CrossCoreSetFlag<2, PIPE_MTE2>(13);
    CrossCoreSetFlag<2, PIPE_MTE2>(2);
    CrossCoreSetFlag<2, PIPE_MTE2>(3);
    uint32_t tile_0 = group, round_0 = 0, r1_0 = 0, tile_2 = group, round_2 = 0, r1_2 = 0;
    for (uint32_t step = 0; tile_2 < 14; ++step) {
      if (tile_0 < 14) {
        const uint32_t tile = tile_0, round = round_0, r1 = r1_0, r1_round = step - 0;
        const uint32_t s_i0 = tile % 2 * 1;
        const uint32_t s_i1 = (6 - tile / 2) * 32;
        const uint32_t n_i1 = s_i1 + 32 <= 200 ? 32 : 200 - s_i1;
        const uint32_t r1_end = ac_least(2, (s_i1 + n_i1 + 127) / 128);
        const bool first = r1 == 0, last = r1 + 1 == r1_end;
        const uint32_t s_r1 = r1 * 128;
        const uint32_t n_r1 = s_r1 + 128 <= 200 ? 128 : 200 - s_r1;
        const uint32_t sub = GetSubBlockIdx();
        const uint32_t own = (n_i1 + 1 - sub) / 2;
        const uint32_t w_row = sub * ((n_i1 + 1) / 2);
        const uint32_t o_row = s_i1 + w_row;
        const uint32_t c_row = own;
        const ac_f32 m1 = ac_at<float>(ub, 512, 0);
        const ac_f32 l2 = ac_at<float>(ub, 512, 512);
        const ac_f32 o3 = ac_at<float>(ub, 4096, 1024);
        const LocalTensor<half> out0_out = ac_at<half>(ub, 2048, 30208 + round % 2 * 2048);
        const LocalTensor<half> acc_in = ac_at<half>(ub, 4608, 5376 + r1_round % 2 * 4608);
        const ac_f32 m_t4 = ac_at<float>(ub, 512, 14848);
        const LocalTensor<half> t5 = ac_at<half>(ub, 2304, 15360);
        const LocalTensor<half> d6 = ac_at<half>(ub, 32, 16512);
        const LocalTensor<float> f7 = ac_at<float>(ub, 64, 16544);
        const ac_f32 t8 = ac_at<float>(ub, 512, 18432);
        const LocalTensor<float> l_by_kept = ac_at<float>(ub, 512, 18944 + r1_round % 3 * 512);
        const ac_f32 t9 = ac_at<float>(ub, 512, 14848);
        const LocalTensor<half> p_n_out = acc_in;
        const LocalTensor<half> t10 = ac_at<half>(ub, 2304, 15360);
        const LocalTensor<half> d11 = ac_at<half>(ub, 512, 15392);
        const LocalTensor<half> d12 = ac_at<half>(ub, 32, 16512);
        const LocalTensor<float> f13 = ac_at<float>(ub, 64, 16544);
        const LocalTensor<float> o_part_in = ac_at<float>(ub, 4096, 20736 + r1_round % 2 * 4096);
        const LocalTensor<float> l_part_in = ac_at<float>(ub, 512, 29184 + r1_round % 2 * 512);
        if (first) {
          PipeBarrier<PIPE_V>();
          Duplicate(m1, -3.40282347e+38f, 128);
        }
        CrossCoreWaitFlag(r1_round % 2);
        WaitFlag<HardEvent::MTE3_MTE2>(r1_round % 2);
        WaitFlag<HardEvent::V_MTE2>(r1_round % 2);
        if (own) {
          DataCopyPad(acc_in[0], acc_m_g[(group * 2 + r1_round % 2) * 4096ull + 16 * w_row], ac_copy(ac_whole(n_r1) / 16, c_row * 32, (32 - c_row) * 32, 18 - c_row), {false, 0, 0, 0});
        }
        SetFlag<HardEvent::MTE2_V>(r1_round % 2);
        SetFlag<HardEvent::MTE2_MTE3>(r1_round % 2);
        CrossCoreSetFlag<2, PIPE_MTE2>(2 + r1_round % 2);
        WaitFlag<HardEvent::MTE2_V>(r1_round % 2);
        PipeBarrier<PIPE_V>();
        ac_scores_until(acc_in, keys_until, int32_t(o_row) - int32_t(s_r1) + 0, ac_whole(n_r1) / 16, 16, 288, half((-1.0f / 0.0f)), 1);
        PipeBarrier<PIPE_V>();
        ac_scores_tail(acc_in, n_r1, 16, 288, half((-1.0f / 0.0f)));
        PipeBarrier<PIPE_V>();
        ac_scores_max(m_t4, acc_in, t5, d6, f7, 0.125f, ac_whole(n_r1) / 16, 16, 288);
        PipeBarrier<PIPE_V>();
        Max(t8, m1, m_t4, 128);
        PipeBarrier<PIPE_V>();
        Sub(t9, m1, t8, 128);
        PipeBarrier<PIPE_V>();
        Exp(l_by_kept, t9, 128);
        WaitFlag<HardEvent::MTE3_V>(r1_round % 2);
        ac_scores_exp(p_n_out, t8, d11, d12, f13, 0.125f, ac_whole(n_r1) / 16, 16, 288, true);
        SetFlag<HardEvent::V_MTE3>(r1_round % 2);
        SetFlag<HardEvent::V_MTE2>(r1_round % 2);
        CrossCoreWaitFlag(7 + r1_round % 3);
        WaitFlag<HardEvent::MTE2_MTE3>(r1_round % 2);
        WaitFlag<HardEvent::V_MTE3>(r1_round % 2);
        if (own) {
          DataCopyPad(p_n_m_g[(group * 3 + r1_round % 3) * 4096ull + 16 * w_row], p_n_out[0], ac_copy(ac_whole(n_r1) / 16, c_row * 32, 18 - c_row, (32 - c_row) * 32));
        }
        SetFlag<HardEvent::MTE3_V>(r1_round % 2);
        SetFlag<HardEvent::MTE3_MTE2>(r1_round % 2);
        CrossCoreSetFlag<2, PIPE_MTE3>(4 + r1_round % 3);
        Adds(m1, t8, 0.0f, 128);
        if (++r1_0 == r1_end) r1_0 = 0, ++round_0, tile_0 += GetBlockNum();
      }
      if (step >= 2 && tile_2 < 14) {
        const uint32_t tile = tile_2, round = round_2, r1 = r1_2, r1_round = step - 2;
        const uint32_t s_i0 = tile % 2 * 1;
        const uint32_t s_i1 = (6 - tile / 2) * 32;
        const uint32_t n_i1 = s_i1 + 32 <= 200 ? 32 : 200 - s_i1;
        const uint32_t r1_end = ac_least(2, (s_i1 + n_i1 + 127) / 128);
        const bool first = r1 == 0, last = r1 + 1 == r1_end;
        const uint32_t s_r1 = r1 * 128;
        const uint32_t n_r1 = s_r1 + 128 <= 200 ? 128 : 200 - s_r1;
        const uint32_t sub = GetSubBlockIdx();
        const uint32_t own = (n_i1 + 1 - sub) / 2;
        const uint32_t w_row = sub * ((n_i1 + 1) / 2);
        const uint32_t o_row = s_i1 + w_row;
        const uint32_t c_row = own;
        const ac_f32 m1 = ac_at<float>(ub, 512, 0);
        const ac_f32 l2 = ac_at<float>(ub, 512, 512);
        const ac_f32 o3 = ac_at<float>(ub, 4096, 1024);
        const LocalTensor<half> out0_out = ac_at<half>(ub, 2048, 30208 + round % 2 * 2048);
        const LocalTensor<half> acc_in = ac_at<half>(ub, 4608, 5376 + r1_round % 2 * 4608);
        const ac_f32 m_t4 = ac_at<float>(ub, 512, 14848);
        const LocalTensor<half> t5 = ac_at<half>(ub, 2304, 15360);
        const LocalTensor<half> d6 = ac_at<half>(ub, 32, 16512);
        const LocalTensor<float> f7 = ac_at<float>(ub, 64, 16544);
        const ac_f32 t8 = ac_at<float>(ub, 512, 18432);
        const LocalTensor<float> l_by_kept = ac_at<float>(ub, 512, 18944 + r1_round % 3 * 512);
        const ac_f32 t9 = ac_at<float>(ub, 512, 14848);
        const LocalTensor<half> p_n_out = acc_in;
        const LocalTensor<half> t10 = ac_at<half>(ub, 2304, 15360);
        const LocalTensor<half> d11 = ac_at<half>(ub, 512, 15392);
        const LocalTensor<half> d12 = ac_at<half>(ub, 32, 16512);
        const LocalTensor<float> f13 = ac_at<float>(ub, 64, 16544);
        const LocalTensor<float> o_part_in = ac_at<float>(ub, 4096, 20736 + r1_round % 2 * 4096);
        const LocalTensor<float> l_part_in = ac_at<float>(ub, 512, 29184 + r1_round % 2 * 512);
        if (first) {
          PipeBarrier<PIPE_V>();
          Duplicate(l2, 0.0f, 128);
          Duplicate(o3, 0.0f, 1024);
        }
        CrossCoreWaitFlag(10 + r1_round % 2);
        WaitFlag<HardEvent::V_MTE2>(2 + r1_round % 2);
        if (own) {
          DataCopyPad(o_part_in[0], o_part_m_g[(group * 2 + r1_round % 2) * 2560ull + 80 * w_row], ac_copy(c_row, 64 * 4, (80 - 64) * 4, (256 - (64 * 4 + 31) / 32 * 32) / 32), {false, 0, 0, 0});
        }
        if (own) {
          DataCopyPad(l_part_in, o_part_m_g[(group * 2 + r1_round % 2) * 2560ull + 80 * w_row + 64], ac_copy(c_row, 32, 288, 0), {false, 0, 0, 0});
        }
        SetFlag<HardEvent::MTE2_V>(2 + r1_round % 2);
        CrossCoreSetFlag<2, PIPE_MTE2>(12 + r1_round % 2);
        WaitFlag<HardEvent::MTE2_V>(2 + r1_round % 2);
        PipeBarrier<PIPE_V>();
        ac_scaled_sum(o3, l_by_kept, o_part_in, 16, 64);
        ac_scaled_add(l2, l_by_kept, l_part_in, 128);
        SetFlag<HardEvent::V_MTE2>(2 + r1_round % 2);
        if (last) {
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
        if (++r1_2 == r1_end) r1_2 = 0, ++round_2, tile_2 += GetBlockNum();
      }
    }
    CrossCoreWaitFlag(7);
    CrossCoreWaitFlag(8);
    CrossCoreWaitFlag(9);
    WaitFlag<HardEvent::MTE3_MTE2>(0);
    WaitFlag<HardEvent::MTE3_MTE2>(1);
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
