#include "autocomp_ascend.h"
#include "autocomp_ascend_cube.h"

/*
 * matmul_add_gelu: matmul add gelu
 * schedule: tile i0 64, i1 64, r0 333
 * predicted: 10.53 us, bound by launch, 1% of the roofline
 * rule: fusion/epilogue: matmul into operand 0 of add
 * rule: fusion/epilogue: add into operand 0 of gelu
 * rule: tiling/npu-products-deep: the schedule
 *
 * kernel matmul_add_gelu(in0: f16[i0:200, r0:333], in1: f16[i1:177, r0:333] of in1[333, 177] at [r0, i1], in2: f16[i1:177]) -> out0: f16[i0:200, i1:177]
 * axes i0=200 i1=177 r0=333
 * tile i0=64 i1=64
 * grid i0, i1
 *   in0_t: f16[i0, r0] block = copy in0
 *   in1_t: f16[i1, r0] block = copy in1
 *   acc: f32[i0, i1] fragment = fill 0.0
 *   acc += mma in0_t, in1_t
 *   in2_t: f16[i1] fragment = copy in2
 *   gelu_t: f16[i0, i1] fragment = map gelu(cast(f16, acc) + in2_t)
 *   store out0 = gelu_t
 *
 * queue cube.MTE2 -> cube.MTE1 [in0_t, in1_t] each tile, 2 slots
 * queue cube.MTE1 -> cube.M [in0_t_a, in1_t_b] each r0_part, 2 slots
 * queue cube.M -> cube.FIX [acc] each tile, 2 slots
 * queue cube.FIX -> vector.MTE2 [acc_m] each tile, 2 slots
 * queue vector.MTE2 -> vector.V [in2_t_in] each tile, 2 slots
 * queue vector.MTE2 -> vector.V [acc_in] each rows, 2 slots
 * queue vector.V -> vector.MTE3 [out0_out] each rows, 2 slots
 * l1: 172032 of 524032 bytes
 * l0a: 45056 of 65536 bytes
 * l0b: 45056 of 65536 bytes
 * l0c: 32768 of 131072 bytes
 * ub: 74752 of 188160 bytes
 */
extern "C" __global__ __aicore__ void k_matmul_add_gelu(GM_ADDR in0, GM_ADDR in1, GM_ADDR in2, GM_ADDR out0, GM_ADDR scratch) {
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
  if ASCEND_IS_AIC {
    TPipe pipe;
    TBuf<TPosition::A1> l1;
    pipe.InitBuffer(l1, 172032);
    TBuf<TPosition::A2> l0a;
    pipe.InitBuffer(l0a, 45056);
    TBuf<TPosition::B2> l0b;
    pipe.InitBuffer(l0b, 45056);
    TBuf<TPosition::CO1> l0c;
    pipe.InitBuffer(l0c, 32768);
    pipe.Destroy();
    const uint32_t group = GetBlockIdx();
    uint32_t round = 0, r0_part_round = 0;
    SetFlag<HardEvent::FIX_M>(0);
    SetFlag<HardEvent::FIX_M>(1);
    SetFlag<HardEvent::M_MTE1>(0);
    SetFlag<HardEvent::M_MTE1>(1);
    SetFlag<HardEvent::MTE1_MTE2>(0);
    SetFlag<HardEvent::MTE1_MTE2>(1);
    for (uint32_t tile = group; tile < 12; tile += GetBlockNum(), ++round) {
      const uint32_t s_i1 = tile % 3 * 64;
      const uint32_t n_i1 = s_i1 + 64 <= 177 ? 64 : 177 - s_i1;
      const uint32_t s_i0 = tile / 3 * 64;
      const uint32_t n_i0 = s_i0 + 64 <= 200 ? 64 : 200 - s_i0;
      const LocalTensor<half> in0_t = l1.GetWithOffset<half>(21504, round % 2 * 43008);
      const LocalTensor<half> in1_t = l1.GetWithOffset<half>(21504, 86016 + round % 2 * 43008);
      const LocalTensor<float> acc = l0c.GetWithOffset<float>(4096, round % 2 * 16384);
      WaitFlag<HardEvent::MTE1_MTE2>(round % 2);
      ac_to_l1(in0_t, in0_g[333ull * s_i0], n_i0, 333, 333, 64);
      ac_to_l1_summed(in1_t, in1_g[1ull * s_i1], 333, n_i1, 177, 336);
      SetFlag<HardEvent::MTE2_MTE1>(round % 2);
      WaitFlag<HardEvent::MTE2_MTE1>(round % 2);
      WaitFlag<HardEvent::FIX_M>(round % 2);
      for (uint32_t r0_part = 0; r0_part < 333; r0_part += 176, ++r0_part_round) {
        const LocalTensor<half> in0_t_a = l0a.GetWithOffset<half>(11264, r0_part_round % 2 * 22528);
        const LocalTensor<half> in1_t_b = l0b.GetWithOffset<half>(11264, r0_part_round % 2 * 22528);
        WaitFlag<HardEvent::M_MTE1>(r0_part_round % 2);
        ac_to_l0a(in0_t_a, in0_t[r0_part * 64], ac_whole(n_i0), ac_whole(ac_least(176, 333 - r0_part)), 64);
        ac_to_l0b_turned(in1_t_b, in1_t[r0_part * 16], ac_whole(n_i1), ac_whole(ac_least(176, 333 - r0_part)), 336);
        SetFlag<HardEvent::MTE1_M>(r0_part_round % 2);
        WaitFlag<HardEvent::MTE1_M>(r0_part_round % 2);
        PipeBarrier<PIPE_M>();
        ac_mmad(acc, in0_t_a, in1_t_b, n_i0, n_i1, ac_least(176, 333 - r0_part), r0_part == 0);
        SetFlag<HardEvent::M_MTE1>(r0_part_round % 2);
      }
      SetFlag<HardEvent::M_FIX>(round % 2);
      SetFlag<HardEvent::MTE1_MTE2>(round % 2);
      WaitFlag<HardEvent::M_FIX>(round % 2);
      CrossCoreWaitFlag(2 + round % 2);
      ac_fixpipe(acc_m_g[(group * 2 + round % 2) * 4096ull], acc, n_i0, n_i1, 64);
      CrossCoreSetFlag<2, PIPE_FIX>(round % 2);
      SetFlag<HardEvent::FIX_M>(round % 2);
    }
    WaitFlag<HardEvent::MTE1_MTE2>(0);
    WaitFlag<HardEvent::MTE1_MTE2>(1);
    WaitFlag<HardEvent::M_MTE1>(0);
    WaitFlag<HardEvent::M_MTE1>(1);
    WaitFlag<HardEvent::FIX_M>(0);
    WaitFlag<HardEvent::FIX_M>(1);
    CrossCoreWaitFlag(2);
    CrossCoreWaitFlag(3);
  }
  if ASCEND_IS_AIV {
    TPipe pipe;
    TBuf<TPosition::VECCALC> ub;
    pipe.InitBuffer(ub, 74752);
    pipe.Destroy();
    const uint32_t group = GetBlockIdx() / 2;
    uint32_t round = 0, rows_round = 0;
    SetFlag<HardEvent::MTE3_V>(0);
    SetFlag<HardEvent::MTE3_V>(1);
    SetFlag<HardEvent::V_MTE2>(2);
    SetFlag<HardEvent::V_MTE2>(3);
    SetFlag<HardEvent::V_MTE2>(0);
    SetFlag<HardEvent::V_MTE2>(1);
    CrossCoreSetFlag<2, PIPE_MTE2>(2);
    CrossCoreSetFlag<2, PIPE_MTE2>(3);
    for (uint32_t tile = group; tile < 12; tile += GetBlockNum(), ++round) {
      const uint32_t s_i1 = tile % 3 * 64;
      const uint32_t n_i1 = s_i1 + 64 <= 177 ? 64 : 177 - s_i1;
      const uint32_t s_i0 = tile / 3 * 64;
      const uint32_t n_i0 = s_i0 + 64 <= 200 ? 64 : 200 - s_i0;
      const uint32_t sub = GetSubBlockIdx();
      const uint32_t own = (n_i0 + 1 - sub) / 2;
      const LocalTensor<half> in2_t_in = ac_at<half>(ub, 128, 16640 + round % 2 * 128);
      WaitFlag<HardEvent::V_MTE2>(round % 2);
      DataCopyPad(in2_t_in[0], in2_g[1ull * s_i1], ac_copy(1, n_i1 * 2, 0, 0), {false, 0, 0, 0});
      SetFlag<HardEvent::MTE2_V>(round % 2);
      CrossCoreWaitFlag(round % 2);
      WaitFlag<HardEvent::MTE2_V>(round % 2);
      for (uint32_t done = 0; done < own; done += 32, ++rows_round) {
        const uint32_t w_row = sub * ((n_i0 + 1) / 2) + done;
        const uint32_t o_row = s_i0 + w_row;
        const uint32_t c_row = ac_least(32, own - done);
        const LocalTensor<float> acc_in = ac_at<float>(ub, 8192, 256 + rows_round % 2 * 8192);
        const ac_f32 in2_t1 = ac_at<float>(ub, 256, 16896);
        const ac_f32 t2 = ac_at<float>(ub, 8192, 17408);
        const ac_f32 t3 = ac_at<float>(ub, 8192, 25600);
        const ac_f32 t4 = ac_at<float>(ub, 8192, 33792);
        const ac_f32 t5 = ac_at<float>(ub, 8192, 41984);
        const ac_f32 t6 = ac_at<float>(ub, 8192, 50176);
        const ac_f32 t7 = ac_at<float>(ub, 8192, 58368);
        const LocalTensor<half> out0_out = ac_at<half>(ub, 4096, 66560 + rows_round % 2 * 4096);
        WaitFlag<HardEvent::V_MTE2>(2 + rows_round % 2);
        DataCopyPad(acc_in[0], acc_m_g[(group * 2 + round % 2) * 4096ull + 64 * w_row], ac_copy(c_row, n_i1 * 4, (64 - n_i1) * 4, (256 - (n_i1 * 4 + 31) / 32 * 32) / 32), {false, 0, 0, 0});
        SetFlag<HardEvent::MTE2_V>(2 + rows_round % 2);
        Cast(in2_t1, in2_t_in, RoundMode::CAST_NONE, 64);
        WaitFlag<HardEvent::MTE2_V>(2 + rows_round % 2);
        PipeBarrier<PIPE_V>();
        ac_Add_line(t2, acc_in, in2_t1, 32, 64);
        SetFlag<HardEvent::V_MTE2>(2 + rows_round % 2);
        PipeBarrier<PIPE_V>();
        ac_gelu(t7, t2, t3, t4, t5, t6, 2048);
        WaitFlag<HardEvent::MTE3_V>(rows_round % 2);
        PipeBarrier<PIPE_V>();
        Cast(out0_out, t7, RoundMode::CAST_RINT, 2048);
        SetFlag<HardEvent::V_MTE3>(rows_round % 2);
        WaitFlag<HardEvent::V_MTE3>(rows_round % 2);
        DataCopyPad(out0_g[177ull * o_row + 1ull * s_i1], out0_out[0], ac_copy(c_row, n_i1 * 2, (128 - (n_i1 * 2 + 31) / 32 * 32) / 32, (177 - n_i1) * 2));
        SetFlag<HardEvent::MTE3_V>(rows_round % 2);
      }
      SetFlag<HardEvent::V_MTE2>(round % 2);
      CrossCoreSetFlag<2, PIPE_MTE2>(2 + round % 2);
    }
    WaitFlag<HardEvent::V_MTE2>(0);
    WaitFlag<HardEvent::V_MTE2>(1);
    WaitFlag<HardEvent::V_MTE2>(2);
    WaitFlag<HardEvent::V_MTE2>(3);
    WaitFlag<HardEvent::MTE3_V>(0);
    WaitFlag<HardEvent::MTE3_V>(1);
  }
}
