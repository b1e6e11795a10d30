// Written by targets/ascend/stand_in.py from targets/ascend/api.yaml.
#pragma once

enum vtype_t { b8, b16, b32, s8, s32, f16, fmix, f32 };
namespace AscendC {
enum class TPosition { GM, A1, A2, B1, B2, C1, C2, CO1, CO2, VECIN, VECOUT, VECCALC, LCM, SPM, SHM, TSCM, C2PIPE2GM, C2PIPE2LOCAL };
enum class RoundMode { CAST_NONE, CAST_RINT, CAST_FLOOR, CAST_CEIL, CAST_ROUND, CAST_TRUNC, CAST_ODD };
enum class HardEvent { MTE2_MTE1, MTE1_MTE2, MTE1_M, M_MTE1, MTE2_V, V_MTE2, MTE3_V, V_MTE3, M_V, V_M, V_V, MTE3_MTE1, MTE1_MTE3, MTE1_V, MTE2_M, M_MTE2, V_MTE1, M_FIX, FIX_M, MTE3_MTE2, MTE2_MTE3, S_V, V_S, S_MTE2, MTE2_S, S_MTE3, MTE3_S, MTE2_FIX, FIX_MTE2, FIX_S, M_S, FIX_MTE3, MTE1_FIX, FIX_MTE1, FIX_FIX };
enum class CMPMODE { LT, GT, EQ, LE, GE, NE };
enum class SELMODE { VSEL_CMPMASK_SPR, VSEL_TENSOR_SCALAR_MODE, VSEL_TENSOR_TENSOR_MODE };
enum class ReduceOrder { ORDER_VALUE_INDEX, ORDER_INDEX_VALUE, ORDER_ONLY_VALUE, ORDER_ONLY_INDEX };
enum class QuantMode_t { NoQuant, F322F16, F322BF16, DEQF16, VDEQF16, QF322B8_PRE, VQF322B8_PRE, REQ8, VREQ8 };
enum class FmatrixMode { FMATRIX_LEFT, FMATRIX_RIGHT };
enum class CacheMode { CACHE_MODE_DISABLE, CACHE_MODE_NORMAL };
enum class CacheLine { SINGLE_CACHE_LINE, ENTIRE_DATA_CACHE };
enum class DcciDst { CACHELINE_ALL, CACHELINE_UB, CACHELINE_OUT, CACHELINE_ATOMIC };
enum class BlockMode { BLOCK_MODE_NORMAL, BLOCK_MODE_MATRIX, BLOCK_MODE_VECTOR };
struct DataCopyExtParams {
  model::Number<uint16_t> blockCount{"DataCopyExtParams.blockCount", 1, 1, 4095};
  model::Number<uint32_t> blockLen{"DataCopyExtParams.blockLen", 0, 1, 2097151};
  model::Number<uint32_t> srcStride{"DataCopyExtParams.srcStride", 0, 0, 4294967295ll};
  model::Number<uint32_t> dstStride{"DataCopyExtParams.dstStride", 0, 0, 4294967295ll};
  model::Number<uint32_t> rsv{"DataCopyExtParams.rsv", 0, 0, 4294967295ll};
  DataCopyExtParams() = default;
};
template <typename T>
struct DataCopyPadExtParams {
  bool isPad = bool(0);
  model::Number<uint8_t> leftPadding{"DataCopyPadExtParams.leftPadding", 0, 0, 32};
  model::Number<uint8_t> rightPadding{"DataCopyPadExtParams.rightPadding", 0, 0, 32};
  T paddingValue = T(0);
  DataCopyPadExtParams() = default;
  DataCopyPadExtParams(bool isPad_, uint8_t leftPadding_, uint8_t rightPadding_, T paddingValue_) {
    isPad = isPad_;
    leftPadding = leftPadding_;
    rightPadding = rightPadding_;
    paddingValue = paddingValue_;
  }
};
struct DataCopyParams {
  model::Number<uint16_t> blockCount{"DataCopyParams.blockCount", 1, 1, 4095};
  model::Number<uint16_t> blockLen{"DataCopyParams.blockLen", 0, 1, 65535};
  model::Number<uint16_t> srcStride{"DataCopyParams.srcStride", 0, 0, 65535};
  model::Number<uint16_t> dstStride{"DataCopyParams.dstStride", 0, 0, 65535};
  DataCopyParams() = default;
  DataCopyParams(uint16_t blockCount_, uint16_t blockLen_, uint16_t srcStride_, uint16_t dstStride_) {
    blockCount = blockCount_;
    blockLen = blockLen_;
    srcStride = srcStride_;
    dstStride = dstStride_;
  }
};
struct DataCopyEnhancedParams {
  BlockMode blockMode = BlockMode(0);
  bool isRelu = bool(0);
  DataCopyEnhancedParams() = default;
};
struct BinaryRepeatParams {
  model::Number<uint32_t> blockNumber{"BinaryRepeatParams.blockNumber", 8, 0, 4294967295ll};
  model::Number<uint8_t> dstBlkStride{"BinaryRepeatParams.dstBlkStride", 1, 0, 255};
  model::Number<uint8_t> src0BlkStride{"BinaryRepeatParams.src0BlkStride", 1, 0, 255};
  model::Number<uint8_t> src1BlkStride{"BinaryRepeatParams.src1BlkStride", 1, 0, 255};
  model::Number<uint8_t> dstRepStride{"BinaryRepeatParams.dstRepStride", 8, 0, 255};
  model::Number<uint8_t> src0RepStride{"BinaryRepeatParams.src0RepStride", 8, 0, 255};
  model::Number<uint8_t> src1RepStride{"BinaryRepeatParams.src1RepStride", 8, 0, 255};
  bool repeatStrideMode = bool(0);
  bool strideSizeMode = bool(0);
  BinaryRepeatParams() = default;
  BinaryRepeatParams(uint8_t dstBlkStride_, uint8_t src0BlkStride_, uint8_t src1BlkStride_, uint8_t dstRepStride_, uint8_t src0RepStride_, uint8_t src1RepStride_) {
    dstBlkStride = dstBlkStride_;
    src0BlkStride = src0BlkStride_;
    src1BlkStride = src1BlkStride_;
    dstRepStride = dstRepStride_;
    src0RepStride = src0RepStride_;
    src1RepStride = src1RepStride_;
  }
};
struct UnaryRepeatParams {
  model::Number<uint32_t> blockNumber{"UnaryRepeatParams.blockNumber", 8, 0, 4294967295ll};
  model::Number<uint16_t> dstBlkStride{"UnaryRepeatParams.dstBlkStride", 1, 0, 65535};
  model::Number<uint16_t> srcBlkStride{"UnaryRepeatParams.srcBlkStride", 1, 0, 65535};
  model::Number<uint8_t> dstRepStride{"UnaryRepeatParams.dstRepStride", 8, 0, 255};
  model::Number<uint8_t> srcRepStride{"UnaryRepeatParams.srcRepStride", 8, 0, 255};
  bool repeatStrideMode = bool(0);
  bool strideSizeMode = bool(0);
  bool halfBlock = bool(0);
  UnaryRepeatParams() = default;
  UnaryRepeatParams(uint16_t dstBlkStride_, uint16_t srcBlkStride_, uint8_t dstRepStride_, uint8_t srcRepStride_) {
    dstBlkStride = dstBlkStride_;
    srcBlkStride = srcBlkStride_;
    dstRepStride = dstRepStride_;
    srcRepStride = srcRepStride_;
  }
};
struct BrcbRepeatParams {
  model::Number<uint32_t> blockNumber{"BrcbRepeatParams.blockNumber", 8, 0, 4294967295ll};
  model::Number<uint16_t> dstRepStride{"BrcbRepeatParams.dstRepStride", 8, 0, 65535};
  model::Number<uint16_t> dstBlkStride{"BrcbRepeatParams.dstBlkStride", 1, 0, 65535};
  model::Number<uint8_t> src0BlkStride{"BrcbRepeatParams.src0BlkStride", 0, 0, 255};
  model::Number<uint8_t> src1BlkStride{"BrcbRepeatParams.src1BlkStride", 0, 0, 255};
  model::Number<uint8_t> src0RepStride{"BrcbRepeatParams.src0RepStride", 0, 0, 255};
  model::Number<uint8_t> src1RepStride{"BrcbRepeatParams.src1RepStride", 0, 0, 255};
  bool repeatStrideMode = bool(0);
  bool strideSizeMode = bool(0);
  BrcbRepeatParams() = default;
  BrcbRepeatParams(uint16_t dstBlkStride_, uint16_t dstRepStride_) {
    dstBlkStride = dstBlkStride_;
    dstRepStride = dstRepStride_;
  }
};
struct TransDataTo5HDParams {
  bool dstHighHalf = bool(0);
  bool srcHighHalf = bool(0);
  model::Number<uint8_t> repeatTimes{"TransDataTo5HDParams.repeatTimes", 1, 0, 255};
  model::Number<uint16_t> dstRepStride{"TransDataTo5HDParams.dstRepStride", 0, 0, 65535};
  model::Number<uint16_t> srcRepStride{"TransDataTo5HDParams.srcRepStride", 0, 0, 65535};
  TransDataTo5HDParams() = default;
};
struct Nd2NzParams {
  model::Number<uint16_t> ndNum{"Nd2NzParams.ndNum", 0, 0, 4095};
  model::Number<uint16_t> nValue{"Nd2NzParams.nValue", 0, 0, 16384};
  model::Number<uint16_t> dValue{"Nd2NzParams.dValue", 0, 0, 65535};
  model::Number<uint16_t> srcNdMatrixStride{"Nd2NzParams.srcNdMatrixStride", 0, 0, 65535};
  model::Number<uint16_t> srcDValue{"Nd2NzParams.srcDValue", 0, 1, 65535};
  model::Number<uint16_t> dstNzC0Stride{"Nd2NzParams.dstNzC0Stride", 0, 1, 16384};
  model::Number<uint16_t> dstNzNStride{"Nd2NzParams.dstNzNStride", 0, 1, 16384};
  model::Number<uint16_t> dstNzMatrixStride{"Nd2NzParams.dstNzMatrixStride", 0, 1, 16384};
  Nd2NzParams() = default;
};
template <typename T>
struct InitConstValueParams {
  model::Number<uint16_t> repeatTimes{"InitConstValueParams.repeatTimes", 0, 0, 32767};
  model::Number<uint16_t> blockNum{"InitConstValueParams.blockNum", 0, 0, 32767};
  model::Number<uint16_t> dstGap{"InitConstValueParams.dstGap", 0, 0, 32767};
  T initValue = T(0);
  InitConstValueParams() = default;
};
struct LoadData2DParams {
  model::Number<uint16_t> startIndex{"LoadData2DParams.startIndex", 0, 0, 65535};
  model::Number<uint16_t> dstGap{"LoadData2DParams.dstGap", 0, 0, 65535};
  model::Number<uint16_t> srcStride{"LoadData2DParams.srcStride", 0, 0, 65535};
  bool ifTranspose = bool(0);
  model::Number<uint8_t> repeatTimes{"LoadData2DParams.repeatTimes", 0, 1, 255};
  model::Number<uint8_t> sid{"LoadData2DParams.sid", 0, 0, 0};
  model::Number<uint8_t> addrMode{"LoadData2DParams.addrMode", 0, 0, 1};
  LoadData2DParams() = default;
};
struct LoadData2dTransposeParams {
  model::Number<uint16_t> startIndex{"LoadData2dTransposeParams.startIndex", 0, 0, 65535};
  model::Number<uint8_t> repeatTimes{"LoadData2dTransposeParams.repeatTimes", 0, 0, 255};
  model::Number<uint16_t> srcStride{"LoadData2dTransposeParams.srcStride", 0, 0, 65535};
  model::Number<uint16_t> dstGap{"LoadData2dTransposeParams.dstGap", 0, 0, 65535};
  model::Number<uint16_t> dstFracGap{"LoadData2dTransposeParams.dstFracGap", 0, 0, 65535};
  model::Number<uint8_t> addrMode{"LoadData2dTransposeParams.addrMode", 0, 0, 1};
  LoadData2dTransposeParams() = default;
};
struct MmadParams {
  model::Number<uint16_t> m{"MmadParams.m", 0, 0, 4095};
  model::Number<uint16_t> n{"MmadParams.n", 0, 0, 4095};
  model::Number<uint16_t> k{"MmadParams.k", 0, 0, 4095};
  bool isBias = bool(0);
  model::Number<int32_t> fmOffset{"MmadParams.fmOffset", 0, -2147483648ll, 2147483647};
  bool enSsparse = bool(0);
  bool enWinogradA = bool(0);
  bool enWinogradB = bool(0);
  model::Number<uint8_t> unitFlag{"MmadParams.unitFlag", 0, 0, 3};
  bool kDirectionAlign = bool(0);
  bool cmatrixSource = bool(0);
  bool cmatrixInitVal = bool(1);
  MmadParams() = default;
};
struct LoadData3DParamsV2Pro {
  model::Number<uint16_t> channelSize{"LoadData3DParamsV2Pro.channelSize", 0, 0, 65535};
  bool enTranspose = bool(0);
  bool enSmallK = bool(0);
  bool filterSizeW = bool(0);
  bool filterSizeH = bool(0);
  bool fMatrixCtrl = bool(0);
  model::Number<uint64_t> extConfig{"LoadData3DParamsV2Pro.extConfig", 0, 0, 9223372036854775807ll};
  model::Number<uint64_t> filterConfig{"LoadData3DParamsV2Pro.filterConfig", 1103823438081, 0, 9223372036854775807ll};
  LoadData3DParamsV2Pro() = default;
};
struct FixpipeParamsV220 {
  model::Number<uint16_t> nSize{"FixpipeParamsV220.nSize", 0, 1, 4095};
  model::Number<uint16_t> mSize{"FixpipeParamsV220.mSize", 0, 1, 8192};
  model::Number<uint16_t> srcStride{"FixpipeParamsV220.srcStride", 0, 0, 65535};
  model::Number<uint32_t> dstStride{"FixpipeParamsV220.dstStride", 0, 0, 4294967295ll};
  QuantMode_t quantPre = QuantMode_t(0);
  model::Number<uint64_t> deqScalar{"FixpipeParamsV220.deqScalar", 0, 0, 9223372036854775807ll};
  model::Number<uint16_t> ndNum{"FixpipeParamsV220.ndNum", 1, 1, 65535};
  model::Number<uint16_t> srcNdStride{"FixpipeParamsV220.srcNdStride", 0, 0, 65535};
  model::Number<uint16_t> dstNdStride{"FixpipeParamsV220.dstNdStride", 0, 0, 65535};
  bool reluEn = bool(0);
  model::Number<uint8_t> unitFlag{"FixpipeParamsV220.unitFlag", 0, 0, 3};
  bool isChannelSplit = bool(0);
  FixpipeParamsV220() = default;
};
}  // namespace AscendC
namespace model {
// Bytes that a position may be given; those that chips differ in are of the chip at hand: model_chip.
inline long most_VECCALC = 188416;
inline long most_A1 = 524160;
inline long most_CO1 = 131072;
inline long capacity(AscendC::TPosition p) {
  using P = AscendC::TPosition;
  return p == P::VECCALC ? most_VECCALC : p == P::A1 ? most_A1 : p == P::A2 ? 65536 : p == P::B2 ? 65536 : p == P::CO1 ? most_CO1 : 0;
}
constexpr long block = 32;
constexpr long repeat = 256;
constexpr long gemv = 1;
constexpr long block_bytes = 32, groups = 16, bank_rows = 128, banks = 4 * groups;
}  // namespace model
