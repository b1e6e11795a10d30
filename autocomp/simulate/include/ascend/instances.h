// The functions of the interface that most kernels use, for the types that they use them for. kernel_operator.h declares them `extern`, and
// ascend_model.cpp makes them: half of what a kernel's build takes would be theirs. Others are made where they are used.
// INSTANCE is `extern template` or `template`.
#define EACH_OF(T)                                                                                                                                    \
  BINARY(Add, T) BINARY(Sub, T) BINARY(Mul, T) BINARY(Div, T) BINARY(Max, T) BINARY(Min, T) SCALAR(Adds, T) SCALAR(Muls, T) SCALAR(Maxs, T)           \
  SCALAR(Mins, T) UNARY(Exp, T) UNARY(Ln, T) UNARY(Sqrt, T) UNARY(Abs, T) UNARY(Relu, T) BLOCKS(BlockReduceSum, T) BLOCKS(BlockReduceMax, T)          \
  BLOCKS(BlockReduceMin, T)                                                                                                                           \
  INSTANCE void Brcb<T>(const LocalTensor<T> &, const LocalTensor<T> &, int64_t, const BrcbRepeatParams &);                                           \
  INSTANCE void DataCopy<T>(const LocalTensor<T> &, const GlobalTensor<T> &, const Nd2NzParams &);                                                    \
  INSTANCE void DataCopy<T>(const LocalTensor<T> &, const GlobalTensor<T> &, int64_t);                                                                \
  INSTANCE void InitConstValue<T>(const LocalTensor<T> &, const InitConstValueParams<T> &);                                                           \
  INSTANCE void LoadData<T>(const LocalTensor<T> &, const LocalTensor<T> &, const LoadData2DParams &);                                                \
  INSTANCE void LoadData<T>(const LocalTensor<T> &, const LocalTensor<T> &, const LoadData3DParamsV2Pro &);                                           \
  INSTANCE void Mmad<float, T, T>(const LocalTensor<float> &, const LocalTensor<T> &, const LocalTensor<T> &, const MmadParams &);
#define COPIED(T)                                                                                                                                     \
  INSTANCE void Duplicate<T>(const LocalTensor<T> &, const T &, int64_t);                                                                             \
  INSTANCE void DataCopyPad<T>(const LocalTensor<T> &, const GlobalTensor<T> &, const DataCopyExtParams &, const DataCopyPadExtParams<T> &);          \
  INSTANCE void DataCopyPad<T>(const GlobalTensor<T> &, const LocalTensor<T> &, const DataCopyExtParams &);
#define UNARY(N, T) INSTANCE void N<T>(const LocalTensor<T> &, const LocalTensor<T> &, int64_t);
#define SCALAR(N, T) INSTANCE void N<T>(const LocalTensor<T> &, const LocalTensor<T> &, const T &, int64_t);
#define BLOCKS(N, T) INSTANCE void N<T>(const LocalTensor<T> &, const LocalTensor<T> &, int64_t, int64_t, int64_t, int64_t, int64_t);
#define COUNTED(N, T) INSTANCE void N<T>(const LocalTensor<T> &, const LocalTensor<T> &, const LocalTensor<T> &, int64_t);
#define BINARY(N, T)                                                                                                                                  \
  COUNTED(N, T)                                                                                                                                       \
  INSTANCE void N<T>(const LocalTensor<T> &, const LocalTensor<T> &, const LocalTensor<T> &, int64_t, int64_t, const BinaryRepeatParams &);

namespace AscendC {
EACH_OF(float) EACH_OF(half)
COPIED(float) COPIED(half) COPIED(int32_t)
COUNTED(Add, int32_t) COUNTED(Sub, int32_t) COUNTED(Mul, int32_t) COUNTED(Max, int32_t) COUNTED(Min, int32_t)
SCALAR(Adds, int32_t) SCALAR(Muls, int32_t) SCALAR(Maxs, int32_t) SCALAR(Mins, int32_t)
COUNTED(ReduceSum, float) COUNTED(ReduceMax, float) COUNTED(ReduceMin, float)
BLOCKS(WholeReduceSum, float)
INSTANCE void WholeReduceMax<float>(const LocalTensor<float> &, const LocalTensor<float> &, int64_t, int64_t, int64_t, int64_t, int64_t, ReduceOrder);
INSTANCE void WholeReduceMin<float>(const LocalTensor<float> &, const LocalTensor<float> &, int64_t, int64_t, int64_t, int64_t, int64_t, ReduceOrder);
INSTANCE void FusedMulAdd<float>(const LocalTensor<float> &, const LocalTensor<float> &, const LocalTensor<float> &, int64_t, int64_t, const BinaryRepeatParams &);
INSTANCE void Cast<half, float, 2201>(const LocalTensor<half> &, const LocalTensor<float> &, RoundMode, int64_t);
INSTANCE void Cast<float, half, 2201>(const LocalTensor<float> &, const LocalTensor<half> &, RoundMode, int64_t);
INSTANCE void Cast<float, int32_t, 2201>(const LocalTensor<float> &, const LocalTensor<int32_t> &, RoundMode, int64_t);
INSTANCE void Cast<int32_t, float, 2201>(const LocalTensor<int32_t> &, const LocalTensor<float> &, RoundMode, int64_t);
INSTANCE void Fixpipe<half, float, CFG_NZ>(const GlobalTensor<half> &, const LocalTensor<float> &, const FixpipeParamsV220 &);
INSTANCE void Fixpipe<half, float, CFG_ROW_MAJOR>(const GlobalTensor<half> &, const LocalTensor<float> &, const FixpipeParamsV220 &);
INSTANCE void Fixpipe<float, float, CFG_NZ>(const GlobalTensor<float> &, const LocalTensor<float> &, const FixpipeParamsV220 &);
INSTANCE void Fixpipe<float, float, CFG_ROW_MAJOR>(const GlobalTensor<float> &, const LocalTensor<float> &, const FixpipeParamsV220 &);
}  // namespace AscendC
#undef EACH_OF
#undef COPIED
#undef UNARY
#undef SCALAR
#undef BLOCKS
#undef COUNTED
#undef BINARY
