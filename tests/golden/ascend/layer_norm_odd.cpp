#include "autocomp_ascend.h"

/*
 * reduce_sum_mul_sub_add_6more: reduce_sum mul sub mul reduce_sum mul add rsqrt mul mul add
 * schedule: tile i0 1
 * predicted: 7.10 us, bound by launch, 1% of the roofline
 * rule: fusion/row-statistic: reduce_sum into operand 0 of mul
 * rule: fusion/row-statistic: mul into operand 1 of sub
 * rule: fusion/row-statistic: sub into operand 0 of mul
 * rule: fusion/row-statistic: sub into operand 1 of mul
 * rule: fusion/reduce-row: mul into operand 0 of reduce_sum
 * rule: fusion/row-statistic: reduce_sum into operand 0 of mul
 * rule: fusion/row-statistic: mul into operand 0 of add
 * rule: fusion/row-statistic: add into operand 0 of rsqrt
 * rule: fusion/row-statistic: sub into operand 0 of mul
 * rule: fusion/row-statistic: rsqrt into operand 1 of mul
 * rule: fusion/row-statistic: mul into operand 0 of mul
 * rule: fusion/row-statistic: mul into operand 0 of add
 * rule: tiling/npu-rows: the schedule
 *
 * kernel reduce_sum_mul_sub_add_6more(in0: f32[i0:27, i1:1023], in1: f32[i1:1023], in2: f32[i1:1023]) -> out0: f32[i0:27, i1:1023]
 * axes i0=27 i1=1023
 * tile i0=1
 * grid i0
 *   in0_t: f32[i0, i1] fragment = copy in0
 *   s_t: f32[i0] fragment = reduce add i1 in0_t
 *   mul_t: f32[i0] fragment = map s_t * 0.0009775171056389809
 *   sub_t: f32[i0, i1] fragment = map in0_t - mul_t
 *   mul_t2: f32[i0, i1] fragment = map sub_t * sub_t
 *   s_t2: f32[i0] fragment = reduce add i1 mul_t2
 *   rsqrt_t: f32[i0] fragment = map rsqrt(s_t2 * 0.0009775171056389809 + 9.999999747378752e-06)
 *   in1_t: f32[i1] fragment = copy in1
 *   in2_t: f32[i1] fragment = copy in2
 *   add_t: f32[i0, i1] fragment = map sub_t * rsqrt_t * in1_t + in2_t
 *   store out0 = add_t
 *
 * queue vector.MTE2 -> vector.V [in0_t_in, in1_t_in, in2_t_in] each tile, 2 slots
 * queue vector.V -> vector.MTE3 [out0_out] each tile, 2 slots
 * ub: 46080 of 188160 bytes
 */
extern "C" __global__ __aicore__ void k_reduce_sum_mul_sub_add_6more(GM_ADDR in0, GM_ADDR in1, GM_ADDR in2, GM_ADDR out0) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
  GlobalTensor<float> in0_g;
  in0_g.SetGlobalBuffer((__gm__ float *)in0);
  GlobalTensor<float> in1_g;
  in1_g.SetGlobalBuffer((__gm__ float *)in1);
  GlobalTensor<float> in2_g;
  in2_g.SetGlobalBuffer((__gm__ float *)in2);
  GlobalTensor<float> out0_g;
  out0_g.SetGlobalBuffer((__gm__ float *)out0);
  TPipe pipe;
  TBuf<TPosition::VECCALC> ub;
  pipe.InitBuffer(ub, 46080);
  pipe.Destroy();
  uint32_t round = 0;
  SetFlag<HardEvent::MTE3_V>(0);
  SetFlag<HardEvent::MTE3_V>(1);
  SetFlag<HardEvent::V_MTE2>(0);
  SetFlag<HardEvent::V_MTE2>(1);
  for (uint32_t tile = GetBlockIdx(); tile < 27; tile += GetBlockNum(), ++round) {
    const uint32_t s_i0 = tile * 1;
    const LocalTensor<float> in0_t_in = ac_at<float>(ub, 4096, round % 2 * 4096);
    const ac_f32 s_t1 = ac_at<float>(ub, 256, 8192);
    const ac_f32 t2 = ac_at<float>(ub, 256, 8448);
    const ac_f32 t3 = ac_at<float>(ub, 4096, 8704);
    const ac_f32 t4 = ac_at<float>(ub, 256, 8448);
    const ac_f32 t5 = ac_at<float>(ub, 4096, 8704);
    const ac_f32 t6 = ac_at<float>(ub, 4096, 12800);
    const ac_f32 s_t2_7 = ac_at<float>(ub, 256, 8448);
    const ac_f32 t8 = ac_at<float>(ub, 256, 8192);
    const ac_f32 t9 = ac_at<float>(ub, 4096, 16896);
    const ac_f32 t10 = ac_at<float>(ub, 256, 8192);
    const ac_f32 t11 = ac_at<float>(ub, 256, 8192);
    const ac_f32 t12 = ac_at<float>(ub, 256, 20992);
    const ac_f32 t13 = ac_at<float>(ub, 256, 21248);
    const LocalTensor<float> in1_t_in = ac_at<float>(ub, 4096, 21504 + round % 2 * 4096);
    const LocalTensor<float> in2_t_in = ac_at<float>(ub, 4096, 29696 + round % 2 * 4096);
    const ac_f32 t14 = ac_at<float>(ub, 4096, 12800);
    const ac_f32 t15 = ac_at<float>(ub, 4096, 12800);
    const ac_f32 t16 = ac_at<float>(ub, 4096, 12800);
    const LocalTensor<float> out0_out = ac_at<float>(ub, 4096, 37888 + round % 2 * 4096);
    WaitFlag<HardEvent::V_MTE2>(round % 2);
    DataCopyPad(in0_t_in[0], in0_g[1023ull * s_i0], ac_copy(1, 1023 * 4, 0, 0), {false, 0, 0, 0});
    DataCopyPad(in1_t_in[0], in1_g[0], ac_copy(1, 1023 * 4, 0, 0), {false, 0, 0, 0});
    DataCopyPad(in2_t_in[0], in2_g[0], ac_copy(1, 1023 * 4, 0, 0), {false, 0, 0, 0});
    SetFlag<HardEvent::MTE2_V>(round % 2);
    WaitFlag<HardEvent::MTE2_V>(round % 2);
    ac_row_sum(s_t1, in0_t_in, t2, t3, 1, 8, 1023, 1024);
    PipeBarrier<PIPE_V>();
    Muls(t4, s_t1, 0.000977517106f, 64);
    PipeBarrier<PIPE_V>();
    ac_Sub_stat(t5, in0_t_in, t4, 1, 1024);
    PipeBarrier<PIPE_V>();
    Mul(t6, t5, t5, 1024);
    PipeBarrier<PIPE_V>();
    ac_row_sum(s_t2_7, t6, t8, t9, 1, 8, 1023, 1024);
    PipeBarrier<PIPE_V>();
    Muls(t10, s_t2_7, 0.000977517106f, 64);
    PipeBarrier<PIPE_V>();
    Adds(t11, t10, 9.99999975e-06f, 64);
    PipeBarrier<PIPE_V>();
    ac_rsqrt(t13, t11, t12, 64);
    PipeBarrier<PIPE_V>();
    ac_Mul_stat(t14, t5, t13, 1, 1024);
    PipeBarrier<PIPE_V>();
    Mul(t15, t14, in1_t_in, 1024);
    PipeBarrier<PIPE_V>();
    Add(t16, t15, in2_t_in, 1024);
    SetFlag<HardEvent::V_MTE2>(round % 2);
    WaitFlag<HardEvent::MTE3_V>(round % 2);
    PipeBarrier<PIPE_V>();
    Adds(out0_out, t16, 0.0f, 1024);
    SetFlag<HardEvent::V_MTE3>(round % 2);
    WaitFlag<HardEvent::V_MTE3>(round % 2);
    DataCopyPad(out0_g[1023ull * s_i0], out0_out[0], ac_copy(1, 1023 * 4, 0, 0));
    SetFlag<HardEvent::MTE3_V>(round % 2);
  }
  WaitFlag<HardEvent::V_MTE2>(0);
  WaitFlag<HardEvent::V_MTE2>(1);
  WaitFlag<HardEvent::MTE3_V>(0);
  WaitFlag<HardEvent::MTE3_V>(1);
}
