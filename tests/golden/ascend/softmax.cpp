#include "autocomp_ascend.h"

/*
 * reduce_max_reduce_sum_cast_sub_3more: cast reduce_max sub exp reduce_sum div cast
 * schedule: tile i0 1
 * predicted: 7.52 us, bound by launch, 1% of the roofline
 * rule: fusion/reduce-prologue: cast into operand 0 of reduce_max
 * rule: fusion/map-into-map: cast into operand 0 of sub
 * rule: fusion/row-statistic: reduce_max into operand 1 of sub
 * rule: fusion/row-statistic: sub into operand 0 of exp
 * rule: fusion/reduce-row: exp into operand 0 of reduce_sum
 * rule: fusion/row-statistic: exp into operand 0 of div
 * rule: fusion/row-statistic: reduce_sum into operand 1 of div
 * rule: fusion/row-statistic: div into operand 0 of cast
 * rule: tiling/npu-rows: the schedule
 *
 * kernel reduce_max_reduce_sum_cast_sub_3more(in0: f16[i0:20, i1:4096]) -> out0: f16[i0:20, i1:4096]
 * axes i0=20 i1=4096
 * tile i0=1
 * grid i0
 *   in0_t: f16[i0, i1] fragment = copy in0
 *   cast_t: f32[i0, i1] fragment = map cast(f32, in0_t)
 *   m_t: f32[i0] fragment = reduce max i1 cast_t
 *   exp_t: f32[i0, i1] fragment = map exp(cast_t - m_t)
 *   s_t: f32[i0] fragment = reduce add i1 exp_t
 *   cast_t2: f16[i0, i1] fragment = map cast(f16, exp_t / s_t)
 *   store out0 = cast_t2
 *
 * queue vector.MTE2 -> vector.V [in0_t_in] each tile, 2 slots
 * queue vector.V -> vector.MTE3 [out0_out] each tile, 2 slots
 * ub: 66048 of 188160 bytes
 */
extern "C" __global__ __aicore__ void k_reduce_max_reduce_sum_cast_sub_3more(GM_ADDR in0, GM_ADDR out0) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
  GlobalTensor<half> in0_g;
  in0_g.SetGlobalBuffer((__gm__ half *)in0);
  GlobalTensor<half> out0_g;
  out0_g.SetGlobalBuffer((__gm__ half *)out0);
  TPipe pipe;
  TBuf<TPosition::VECCALC> ub;
  pipe.InitBuffer(ub, 66048);
  pipe.Destroy();
  uint32_t round = 0;
  SetFlag<HardEvent::MTE3_V>(0);
  SetFlag<HardEvent::MTE3_V>(1);
  SetFlag<HardEvent::V_MTE2>(0);
  SetFlag<HardEvent::V_MTE2>(1);
  for (uint32_t tile = GetBlockIdx(); tile < 20; tile += GetBlockNum(), ++round) {
    const uint32_t s_i0 = tile * 1;
    const LocalTensor<half> in0_t_in = ac_at<half>(ub, 8192, round % 2 * 8192);
    const ac_f32 in0_t1 = ac_at<float>(ub, 16384, 16384);
    const ac_f32 m_t2 = ac_at<float>(ub, 256, 32768);
    const ac_f32 t3 = ac_at<float>(ub, 256, 33024);
    const ac_f32 t4 = ac_at<float>(ub, 16384, 33280);
    const ac_f32 t5 = ac_at<float>(ub, 16384, 33280);
    const ac_f32 s_t6 = ac_at<float>(ub, 256, 32768);
    const ac_f32 t7 = ac_at<float>(ub, 256, 33024);
    const ac_f32 t8 = ac_at<float>(ub, 16384, 16384);
    const ac_f32 t9 = ac_at<float>(ub, 16384, 16384);
    const LocalTensor<half> out0_out = ac_at<half>(ub, 8192, 49664 + round % 2 * 8192);
    WaitFlag<HardEvent::V_MTE2>(round % 2);
    DataCopyPad(in0_t_in[0], in0_g[4096ull * s_i0], ac_copy(1, 4096 * 2, 0, 0), {false, 0, 0, 0});
    SetFlag<HardEvent::MTE2_V>(round % 2);
    WaitFlag<HardEvent::MTE2_V>(round % 2);
    PipeBarrier<PIPE_V>();
    Cast(in0_t1, in0_t_in, RoundMode::CAST_NONE, 4096);
    SetFlag<HardEvent::V_MTE2>(round % 2);
    PipeBarrier<PIPE_V>();
    ac_row_max(m_t2, in0_t1, t3, t4, 1, 8, 4096, 4096);
    PipeBarrier<PIPE_V>();
    ac_Sub_stat(t5, in0_t1, m_t2, 1, 4096);
    PipeBarrier<PIPE_V>();
    Exp(t5, t5, 4096);
    PipeBarrier<PIPE_V>();
    ac_row_sum(s_t6, t5, t7, t8, 1, 8, 4096, 4096);
    PipeBarrier<PIPE_V>();
    ac_Div_stat(t9, t5, s_t6, 1, 4096);
    WaitFlag<HardEvent::MTE3_V>(round % 2);
    PipeBarrier<PIPE_V>();
    Cast(out0_out, t9, RoundMode::CAST_RINT, 4096);
    SetFlag<HardEvent::V_MTE3>(round % 2);
    WaitFlag<HardEvent::V_MTE3>(round % 2);
    DataCopyPad(out0_g[4096ull * s_i0], out0_out[0], ac_copy(1, 4096 * 2, 0, 0));
    SetFlag<HardEvent::MTE3_V>(round % 2);
  }
  WaitFlag<HardEvent::V_MTE2>(0);
  WaitFlag<HardEvent::V_MTE2>(1);
  WaitFlag<HardEvent::MTE3_V>(0);
  WaitFlag<HardEvent::MTE3_V>(1);
}
