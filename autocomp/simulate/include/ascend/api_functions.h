// Written by targets/ascend/stand_in.py from targets/ascend/api.yaml.
#pragma once

#ifdef __NPU_ARCH__
#define MODEL_CHIP __NPU_ARCH__
#else
#define MODEL_CHIP 2201
#endif
namespace AscendC {
template <typename T>
void Add(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1, int64_t count) {
  static_assert(model::one_of<T, half, float, int16_t, int32_t>, "Add has no form for elements of this type");
  model::called = "Add";
  model::aligned("Add", "dst", dst.at, 32);
  model::aligned("Add", "src0", src0.at, 32);
  model::aligned("Add", "src1", src1.at, 32);
  model::within("Add", "count", count, 0, 196608 / sizeof(T));
  model::Add(dst, src0, src1, int32_t(count));
}
template <typename T>
void Add(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1, int64_t mask, int64_t repeatTime, const BinaryRepeatParams &repeatParams) {
  static_assert(model::one_of<T, half, float, int16_t, int32_t>, "Add has no form for elements of this type");
  model::called = "Add";
  model::aligned("Add", "dst", dst.at, 32);
  model::aligned("Add", "src0", src0.at, 32);
  model::aligned("Add", "src1", src1.at, 32);
  model::within("Add", "mask", mask, 1, 256 / sizeof(T));
  model::within("Add", "repeatTime", repeatTime, 0, 255);
  model::Add(dst, src0, src1, uint64_t(mask), uint8_t(repeatTime), repeatParams);
}
template <typename T>
void Sub(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1, int64_t count) {
  static_assert(model::one_of<T, half, float, int16_t, int32_t>, "Sub has no form for elements of this type");
  model::called = "Sub";
  model::aligned("Sub", "dst", dst.at, 32);
  model::aligned("Sub", "src0", src0.at, 32);
  model::aligned("Sub", "src1", src1.at, 32);
  model::within("Sub", "count", count, 0, 196608 / sizeof(T));
  model::Sub(dst, src0, src1, int32_t(count));
}
template <typename T>
void Sub(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1, int64_t mask, int64_t repeatTime, const BinaryRepeatParams &repeatParams) {
  static_assert(model::one_of<T, half, float, int16_t, int32_t>, "Sub has no form for elements of this type");
  model::called = "Sub";
  model::aligned("Sub", "dst", dst.at, 32);
  model::aligned("Sub", "src0", src0.at, 32);
  model::aligned("Sub", "src1", src1.at, 32);
  model::within("Sub", "mask", mask, 1, 256 / sizeof(T));
  model::within("Sub", "repeatTime", repeatTime, 0, 255);
  model::Sub(dst, src0, src1, uint64_t(mask), uint8_t(repeatTime), repeatParams);
}
template <typename T>
void Mul(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1, int64_t count) {
  static_assert(model::one_of<T, half, float, int16_t, int32_t>, "Mul has no form for elements of this type");
  model::called = "Mul";
  model::aligned("Mul", "dst", dst.at, 32);
  model::aligned("Mul", "src0", src0.at, 32);
  model::aligned("Mul", "src1", src1.at, 32);
  model::within("Mul", "count", count, 0, 196608 / sizeof(T));
  model::Mul(dst, src0, src1, int32_t(count));
}
template <typename T>
void Mul(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1, int64_t mask, int64_t repeatTime, const BinaryRepeatParams &repeatParams) {
  static_assert(model::one_of<T, half, float, int16_t, int32_t>, "Mul has no form for elements of this type");
  model::called = "Mul";
  model::aligned("Mul", "dst", dst.at, 32);
  model::aligned("Mul", "src0", src0.at, 32);
  model::aligned("Mul", "src1", src1.at, 32);
  model::within("Mul", "mask", mask, 1, 256 / sizeof(T));
  model::within("Mul", "repeatTime", repeatTime, 0, 255);
  model::Mul(dst, src0, src1, uint64_t(mask), uint8_t(repeatTime), repeatParams);
}
template <typename T>
void Max(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1, int64_t count) {
  static_assert(model::one_of<T, half, float, int16_t, int32_t>, "Max has no form for elements of this type");
  model::called = "Max";
  model::aligned("Max", "dst", dst.at, 32);
  model::aligned("Max", "src0", src0.at, 32);
  model::aligned("Max", "src1", src1.at, 32);
  model::within("Max", "count", count, 0, 196608 / sizeof(T));
  model::Max(dst, src0, src1, int32_t(count));
}
template <typename T>
void Max(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1, int64_t mask, int64_t repeatTime, const BinaryRepeatParams &repeatParams) {
  static_assert(model::one_of<T, half, float, int16_t, int32_t>, "Max has no form for elements of this type");
  model::called = "Max";
  model::aligned("Max", "dst", dst.at, 32);
  model::aligned("Max", "src0", src0.at, 32);
  model::aligned("Max", "src1", src1.at, 32);
  model::within("Max", "mask", mask, 1, 256 / sizeof(T));
  model::within("Max", "repeatTime", repeatTime, 0, 255);
  model::Max(dst, src0, src1, uint64_t(mask), uint8_t(repeatTime), repeatParams);
}
template <typename T>
void Min(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1, int64_t count) {
  static_assert(model::one_of<T, half, float, int16_t, int32_t>, "Min has no form for elements of this type");
  model::called = "Min";
  model::aligned("Min", "dst", dst.at, 32);
  model::aligned("Min", "src0", src0.at, 32);
  model::aligned("Min", "src1", src1.at, 32);
  model::within("Min", "count", count, 0, 196608 / sizeof(T));
  model::Min(dst, src0, src1, int32_t(count));
}
template <typename T>
void Min(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1, int64_t mask, int64_t repeatTime, const BinaryRepeatParams &repeatParams) {
  static_assert(model::one_of<T, half, float, int16_t, int32_t>, "Min has no form for elements of this type");
  model::called = "Min";
  model::aligned("Min", "dst", dst.at, 32);
  model::aligned("Min", "src0", src0.at, 32);
  model::aligned("Min", "src1", src1.at, 32);
  model::within("Min", "mask", mask, 1, 256 / sizeof(T));
  model::within("Min", "repeatTime", repeatTime, 0, 255);
  model::Min(dst, src0, src1, uint64_t(mask), uint8_t(repeatTime), repeatParams);
}
template <typename T>
void Div(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1, int64_t count) {
  static_assert(model::one_of<T, half, float>, "Div has no form for elements of this type");
  model::called = "Div";
  model::aligned("Div", "dst", dst.at, 32);
  model::aligned("Div", "src0", src0.at, 32);
  model::aligned("Div", "src1", src1.at, 32);
  model::within("Div", "count", count, 0, 196608 / sizeof(T));
  model::Div(dst, src0, src1, int32_t(count));
}
template <typename T>
void Div(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1, int64_t mask, int64_t repeatTime, const BinaryRepeatParams &repeatParams) {
  static_assert(model::one_of<T, half, float>, "Div has no form for elements of this type");
  model::called = "Div";
  model::aligned("Div", "dst", dst.at, 32);
  model::aligned("Div", "src0", src0.at, 32);
  model::aligned("Div", "src1", src1.at, 32);
  model::within("Div", "mask", mask, 1, 256 / sizeof(T));
  model::within("Div", "repeatTime", repeatTime, 0, 255);
  model::Div(dst, src0, src1, uint64_t(mask), uint8_t(repeatTime), repeatParams);
}
template <typename T>
void FusedMulAdd(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1, int64_t mask, int64_t repeatTime, const BinaryRepeatParams &repeatParams) {
  static_assert(model::one_of<T, half, float>, "FusedMulAdd has no form for elements of this type");
  model::called = "FusedMulAdd";
  model::aligned("FusedMulAdd", "dst", dst.at, 32);
  model::aligned("FusedMulAdd", "src0", src0.at, 32);
  model::aligned("FusedMulAdd", "src1", src1.at, 32);
  model::within("FusedMulAdd", "mask", mask, 1, 256 / sizeof(T));
  model::within("FusedMulAdd", "repeatTime", repeatTime, 0, 255);
  model::FusedMulAdd(dst, src0, src1, uint64_t(mask), uint8_t(repeatTime), repeatParams);
}
template <typename T>
void Adds(const LocalTensor<T> &dst, const LocalTensor<T> &src, const T &scalarValue, int64_t count) {
  static_assert(model::one_of<T, half, float, int16_t, int32_t>, "Adds has no form for elements of this type");
  model::called = "Adds";
  model::aligned("Adds", "dst", dst.at, 32);
  model::aligned("Adds", "src", src.at, 32);
  model::within("Adds", "count", count, -2147483648, 2147483647);
  model::Adds(dst, src, scalarValue, int32_t(count));
}
template <typename T>
void Adds(const LocalTensor<T> &dst, const LocalTensor<T> &src, const T &scalarValue, int64_t mask, int64_t repeatTime, const UnaryRepeatParams &repeatParams) {
  static_assert(model::one_of<T, half, float, int16_t, int32_t>, "Adds has no form for elements of this type");
  model::called = "Adds";
  model::aligned("Adds", "dst", dst.at, 32);
  model::aligned("Adds", "src", src.at, 32);
  model::within("Adds", "mask", mask, 1, 256 / sizeof(T));
  model::within("Adds", "repeatTime", repeatTime, 0, 255);
  model::Adds(dst, src, scalarValue, uint64_t(mask), uint8_t(repeatTime), repeatParams);
}
template <typename T>
void Muls(const LocalTensor<T> &dst, const LocalTensor<T> &src, const T &scalarValue, int64_t count) {
  static_assert(model::one_of<T, half, float, int16_t, int32_t>, "Muls has no form for elements of this type");
  model::called = "Muls";
  model::aligned("Muls", "dst", dst.at, 32);
  model::aligned("Muls", "src", src.at, 32);
  model::within("Muls", "count", count, -2147483648, 2147483647);
  model::Muls(dst, src, scalarValue, int32_t(count));
}
template <typename T>
void Muls(const LocalTensor<T> &dst, const LocalTensor<T> &src, const T &scalarValue, int64_t mask, int64_t repeatTime, const UnaryRepeatParams &repeatParams) {
  static_assert(model::one_of<T, half, float, int16_t, int32_t>, "Muls has no form for elements of this type");
  model::called = "Muls";
  model::aligned("Muls", "dst", dst.at, 32);
  model::aligned("Muls", "src", src.at, 32);
  model::within("Muls", "mask", mask, 1, 256 / sizeof(T));
  model::within("Muls", "repeatTime", repeatTime, 0, 255);
  model::Muls(dst, src, scalarValue, uint64_t(mask), uint8_t(repeatTime), repeatParams);
}
template <typename T>
void Maxs(const LocalTensor<T> &dst, const LocalTensor<T> &src, const T &scalarValue, int64_t count) {
  static_assert(model::one_of<T, half, float, int16_t, int32_t>, "Maxs has no form for elements of this type");
  model::called = "Maxs";
  model::aligned("Maxs", "dst", dst.at, 32);
  model::aligned("Maxs", "src", src.at, 32);
  model::within("Maxs", "count", count, -2147483648, 2147483647);
  model::Maxs(dst, src, scalarValue, int32_t(count));
}
template <typename T>
void Maxs(const LocalTensor<T> &dst, const LocalTensor<T> &src, const T &scalarValue, int64_t mask, int64_t repeatTime, const UnaryRepeatParams &repeatParams) {
  static_assert(model::one_of<T, half, float, int16_t, int32_t>, "Maxs has no form for elements of this type");
  model::called = "Maxs";
  model::aligned("Maxs", "dst", dst.at, 32);
  model::aligned("Maxs", "src", src.at, 32);
  model::within("Maxs", "mask", mask, 1, 256 / sizeof(T));
  model::within("Maxs", "repeatTime", repeatTime, 0, 255);
  model::Maxs(dst, src, scalarValue, uint64_t(mask), uint8_t(repeatTime), repeatParams);
}
template <typename T>
void Mins(const LocalTensor<T> &dst, const LocalTensor<T> &src, const T &scalarValue, int64_t count) {
  static_assert(model::one_of<T, half, float, int16_t, int32_t>, "Mins has no form for elements of this type");
  model::called = "Mins";
  model::aligned("Mins", "dst", dst.at, 32);
  model::aligned("Mins", "src", src.at, 32);
  model::within("Mins", "count", count, -2147483648, 2147483647);
  model::Mins(dst, src, scalarValue, int32_t(count));
}
template <typename T>
void Mins(const LocalTensor<T> &dst, const LocalTensor<T> &src, const T &scalarValue, int64_t mask, int64_t repeatTime, const UnaryRepeatParams &repeatParams) {
  static_assert(model::one_of<T, half, float, int16_t, int32_t>, "Mins has no form for elements of this type");
  model::called = "Mins";
  model::aligned("Mins", "dst", dst.at, 32);
  model::aligned("Mins", "src", src.at, 32);
  model::within("Mins", "mask", mask, 1, 256 / sizeof(T));
  model::within("Mins", "repeatTime", repeatTime, 0, 255);
  model::Mins(dst, src, scalarValue, uint64_t(mask), uint8_t(repeatTime), repeatParams);
}
template <typename T>
void Axpy(const LocalTensor<T> &dst, const LocalTensor<T> &src, const T &scalarValue, int64_t count) {
  static_assert(model::one_of<T, half, float>, "Axpy has no form for elements of this type");
  model::called = "Axpy";
  model::aligned("Axpy", "dst", dst.at, 32);
  model::aligned("Axpy", "src", src.at, 32);
  model::within("Axpy", "count", count, -2147483648, 2147483647);
  model::Axpy(dst, src, scalarValue, int32_t(count));
}
template <typename T>
void Exp(const LocalTensor<T> &dst, const LocalTensor<T> &src, int64_t count) {
  static_assert(model::one_of<T, half, float>, "Exp has no form for elements of this type");
  model::called = "Exp";
  model::aligned("Exp", "dst", dst.at, 32);
  model::aligned("Exp", "src", src.at, 32);
  model::within("Exp", "count", count, -2147483648, 2147483647);
  model::Exp(dst, src, int32_t(count));
}
template <typename T>
void Ln(const LocalTensor<T> &dst, const LocalTensor<T> &src, int64_t count) {
  static_assert(model::one_of<T, half, float>, "Ln has no form for elements of this type");
  model::called = "Ln";
  model::aligned("Ln", "dst", dst.at, 32);
  model::aligned("Ln", "src", src.at, 32);
  model::within("Ln", "count", count, -2147483648, 2147483647);
  model::Ln(dst, src, int32_t(count));
}
template <typename T>
void Sqrt(const LocalTensor<T> &dst, const LocalTensor<T> &src, int64_t count) {
  static_assert(model::one_of<T, half, float>, "Sqrt has no form for elements of this type");
  model::called = "Sqrt";
  model::aligned("Sqrt", "dst", dst.at, 32);
  model::aligned("Sqrt", "src", src.at, 32);
  model::within("Sqrt", "count", count, -2147483648, 2147483647);
  model::Sqrt(dst, src, int32_t(count));
}
template <typename T>
void Abs(const LocalTensor<T> &dst, const LocalTensor<T> &src, int64_t count) {
  static_assert(model::one_of<T, half, float>, "Abs has no form for elements of this type");
  model::called = "Abs";
  model::aligned("Abs", "dst", dst.at, 32);
  model::aligned("Abs", "src", src.at, 32);
  model::within("Abs", "count", count, -2147483648, 2147483647);
  model::Abs(dst, src, int32_t(count));
}
template <typename T>
void Relu(const LocalTensor<T> &dst, const LocalTensor<T> &src, int64_t count) {
  static_assert(model::one_of<T, half, float, int32_t>, "Relu has no form for elements of this type");
  model::called = "Relu";
  model::aligned("Relu", "dst", dst.at, 32);
  model::aligned("Relu", "src", src.at, 32);
  model::within("Relu", "count", count, -2147483648, 2147483647);
  model::Relu(dst, src, int32_t(count));
}
template <typename T>
void ShiftLeft(const LocalTensor<T> &dst, const LocalTensor<T> &src, const T &scalarValue, int64_t count) {
  static_assert(model::one_of<T, uint16_t, uint32_t>, "ShiftLeft has no form for elements of this type");
  model::called = "ShiftLeft";
  model::aligned("ShiftLeft", "dst", dst.at, 32);
  model::aligned("ShiftLeft", "src", src.at, 32);
  model::within("ShiftLeft", "count", count, -2147483648, 2147483647);
  model::ShiftLeft(dst, src, scalarValue, int32_t(count));
}
template <typename T>
void ShiftRight(const LocalTensor<T> &dst, const LocalTensor<T> &src, const T &scalarValue, int64_t count) {
  static_assert(model::one_of<T, int16_t, uint16_t, int32_t, uint32_t>, "ShiftRight has no form for elements of this type");
  model::called = "ShiftRight";
  model::aligned("ShiftRight", "dst", dst.at, 32);
  model::aligned("ShiftRight", "src", src.at, 32);
  model::within("ShiftRight", "count", count, -2147483648, 2147483647);
  model::ShiftRight(dst, src, scalarValue, int32_t(count));
}
template <typename T>
void Not(const LocalTensor<T> &dst, const LocalTensor<T> &src, int64_t count) {
  static_assert(model::one_of<T, int16_t, uint16_t>, "Not has no form for elements of this type");
  model::called = "Not";
  model::aligned("Not", "dst", dst.at, 32);
  model::aligned("Not", "src", src.at, 32);
  model::within("Not", "count", count, -2147483648, 2147483647);
  model::Not(dst, src, int32_t(count));
}
template <typename T>
void And(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1, int64_t count) {
  static_assert(model::one_of<T, int16_t, uint16_t>, "And has no form for elements of this type");
  model::called = "And";
  model::aligned("And", "dst", dst.at, 32);
  model::aligned("And", "src0", src0.at, 32);
  model::aligned("And", "src1", src1.at, 32);
  model::within("And", "count", count, -2147483648, 2147483647);
  model::And(dst, src0, src1, int32_t(count));
}
template <typename T>
void Or(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1, int64_t count) {
  static_assert(model::one_of<T, int16_t, uint16_t>, "Or has no form for elements of this type");
  model::called = "Or";
  model::aligned("Or", "dst", dst.at, 32);
  model::aligned("Or", "src0", src0.at, 32);
  model::aligned("Or", "src1", src1.at, 32);
  model::within("Or", "count", count, -2147483648, 2147483647);
  model::Or(dst, src0, src1, int32_t(count));
}
template <typename T>
void Duplicate(const LocalTensor<T> &dst, const T &scalarValue, int64_t count) {
  static_assert(model::one_of<T, half, bfloat16_t, float, int16_t, uint16_t, int32_t, uint32_t>, "Duplicate has no form for elements of this type");
  static_assert(MODEL_CHIP != 2002 || !model::one_of<T, bfloat16_t>, "Duplicate of 2002 has no form for elements of this type");
  model::called = "Duplicate";
  model::aligned("Duplicate", "dst", dst.at, 32);
  model::within("Duplicate", "count", count, -2147483648, 2147483647);
  model::Duplicate(dst, scalarValue, int32_t(count));
}
template <typename T>
void Duplicate(const LocalTensor<T> &dst, const T &scalarValue, uint64_t (&mask)[2], int64_t repeatTime, int64_t dstBlockStride, int64_t dstRepeatStride) {
  static_assert(model::one_of<T, half, bfloat16_t, float, int16_t, uint16_t, int32_t, uint32_t>, "Duplicate has no form for elements of this type");
  static_assert(MODEL_CHIP != 2002 || !model::one_of<T, bfloat16_t>, "Duplicate of 2002 has no form for elements of this type");
  model::called = "Duplicate";
  model::aligned("Duplicate", "dst", dst.at, 32);
  model::within("Duplicate", "repeatTime", repeatTime, 0, 255);
  model::within("Duplicate", "dstBlockStride", dstBlockStride, 0, 65535);
  model::within("Duplicate", "dstRepeatStride", dstRepeatStride, 0, 255);
  model::Duplicate(dst, scalarValue, mask, uint8_t(repeatTime), uint16_t(dstBlockStride), uint8_t(dstRepeatStride));
}
template <typename T, typename U, int Chip = MODEL_CHIP>
void Cast(const LocalTensor<T> &dst, const LocalTensor<U> &src, RoundMode roundMode, int64_t count) {
  constexpr unsigned modes =
      Chip == 2002 ? (
      std::is_same_v<U, half> && std::is_same_v<T, float> ? 1u << int(RoundMode::CAST_NONE) :
      std::is_same_v<U, half> && std::is_same_v<T, int8_t> ? 1u << int(RoundMode::CAST_NONE) :
      std::is_same_v<U, half> && std::is_same_v<T, uint8_t> ? 1u << int(RoundMode::CAST_NONE) :
      std::is_same_v<U, int8_t> && std::is_same_v<T, half> ? 1u << int(RoundMode::CAST_NONE) :
      std::is_same_v<U, uint8_t> && std::is_same_v<T, half> ? 1u << int(RoundMode::CAST_NONE) :
      std::is_same_v<U, int16_t> && std::is_same_v<T, half> ? 1u << int(RoundMode::CAST_NONE) :
      std::is_same_v<U, int32_t> && std::is_same_v<T, float> ? 1u << int(RoundMode::CAST_NONE) :
      std::is_same_v<U, int32_t> && std::is_same_v<T, int16_t> ? 1u << int(RoundMode::CAST_NONE) :
      std::is_same_v<U, float> && std::is_same_v<T, half> ? 1u << int(RoundMode::CAST_NONE) :
      std::is_same_v<U, float> && std::is_same_v<T, int32_t> ? 1u << int(RoundMode::CAST_RINT) | 1u << int(RoundMode::CAST_FLOOR) | 1u << int(RoundMode::CAST_CEIL) | 1u << int(RoundMode::CAST_TRUNC) :
      0u
      ) :
      std::is_same_v<U, half> && std::is_same_v<T, float> ? 1u << int(RoundMode::CAST_NONE) :
      std::is_same_v<U, half> && std::is_same_v<T, int8_t> ? 1u << int(RoundMode::CAST_RINT) | 1u << int(RoundMode::CAST_NONE) :
      std::is_same_v<U, half> && std::is_same_v<T, uint8_t> ? 1u << int(RoundMode::CAST_RINT) | 1u << int(RoundMode::CAST_NONE) :
      std::is_same_v<U, bfloat16_t> && std::is_same_v<T, float> ? 1u << int(RoundMode::CAST_NONE) :
      std::is_same_v<U, int8_t> && std::is_same_v<T, half> ? 1u << int(RoundMode::CAST_NONE) :
      std::is_same_v<U, uint8_t> && std::is_same_v<T, half> ? 1u << int(RoundMode::CAST_NONE) :
      std::is_same_v<U, int32_t> && std::is_same_v<T, float> ? 1u << int(RoundMode::CAST_RINT) :
      std::is_same_v<U, int32_t> && std::is_same_v<T, int64_t> ? 1u << int(RoundMode::CAST_NONE) :
      std::is_same_v<U, int64_t> && std::is_same_v<T, float> ? 1u << int(RoundMode::CAST_RINT) :
      std::is_same_v<U, float> && std::is_same_v<T, half> ? 1u << int(RoundMode::CAST_RINT) | 1u << int(RoundMode::CAST_NONE) :
      std::is_same_v<U, float> && std::is_same_v<T, bfloat16_t> ? 1u << int(RoundMode::CAST_RINT) :
      std::is_same_v<U, float> && std::is_same_v<T, float> ? 1u << int(RoundMode::CAST_RINT) | 1u << int(RoundMode::CAST_FLOOR) | 1u << int(RoundMode::CAST_CEIL) | 1u << int(RoundMode::CAST_TRUNC) :
      std::is_same_v<U, float> && std::is_same_v<T, int32_t> ? 1u << int(RoundMode::CAST_RINT) :
      std::is_same_v<U, float> && std::is_same_v<T, int64_t> ? 1u << int(RoundMode::CAST_RINT) :
      0u
      ;
  static_assert(modes != 0, "Cast has no form between these types");
  if (!(modes >> int(roundMode) & 1)) model::tell("a wrong rounding mode");
  model::called = "Cast";
  model::aligned("Cast", "dst", dst.at, 32);
  model::aligned("Cast", "src", src.at, 32);
  model::within("Cast", "count", count, 0, 4294967295ll);
  model::Cast(dst, src, roundMode, uint32_t(count));
}
template <typename T, typename U, int Chip = MODEL_CHIP>
void Cast(const LocalTensor<T> &dst, const LocalTensor<U> &src, RoundMode roundMode, int64_t mask, int64_t repeatTime, const UnaryRepeatParams &repeatParams) {
  constexpr unsigned modes =
      Chip == 2002 ? (
      std::is_same_v<U, half> && std::is_same_v<T, float> ? 1u << int(RoundMode::CAST_NONE) :
      std::is_same_v<U, half> && std::is_same_v<T, int8_t> ? 1u << int(RoundMode::CAST_NONE) :
      std::is_same_v<U, half> && std::is_same_v<T, uint8_t> ? 1u << int(RoundMode::CAST_NONE) :
      std::is_same_v<U, int8_t> && std::is_same_v<T, half> ? 1u << int(RoundMode::CAST_NONE) :
      std::is_same_v<U, uint8_t> && std::is_same_v<T, half> ? 1u << int(RoundMode::CAST_NONE) :
      std::is_same_v<U, int16_t> && std::is_same_v<T, half> ? 1u << int(RoundMode::CAST_NONE) :
      std::is_same_v<U, int32_t> && std::is_same_v<T, float> ? 1u << int(RoundMode::CAST_NONE) :
      std::is_same_v<U, int32_t> && std::is_same_v<T, int16_t> ? 1u << int(RoundMode::CAST_NONE) :
      std::is_same_v<U, float> && std::is_same_v<T, half> ? 1u << int(RoundMode::CAST_NONE) :
      std::is_same_v<U, float> && std::is_same_v<T, int32_t> ? 1u << int(RoundMode::CAST_RINT) | 1u << int(RoundMode::CAST_FLOOR) | 1u << int(RoundMode::CAST_CEIL) | 1u << int(RoundMode::CAST_TRUNC) :
      0u
      ) :
      std::is_same_v<U, half> && std::is_same_v<T, float> ? 1u << int(RoundMode::CAST_NONE) :
      std::is_same_v<U, half> && std::is_same_v<T, int8_t> ? 1u << int(RoundMode::CAST_RINT) | 1u << int(RoundMode::CAST_NONE) :
      std::is_same_v<U, half> && std::is_same_v<T, uint8_t> ? 1u << int(RoundMode::CAST_RINT) | 1u << int(RoundMode::CAST_NONE) :
      std::is_same_v<U, bfloat16_t> && std::is_same_v<T, float> ? 1u << int(RoundMode::CAST_NONE) :
      std::is_same_v<U, int8_t> && std::is_same_v<T, half> ? 1u << int(RoundMode::CAST_NONE) :
      std::is_same_v<U, uint8_t> && std::is_same_v<T, half> ? 1u << int(RoundMode::CAST_NONE) :
      std::is_same_v<U, int32_t> && std::is_same_v<T, float> ? 1u << int(RoundMode::CAST_RINT) :
      std::is_same_v<U, int32_t> && std::is_same_v<T, int64_t> ? 1u << int(RoundMode::CAST_NONE) :
      std::is_same_v<U, int64_t> && std::is_same_v<T, float> ? 1u << int(RoundMode::CAST_RINT) :
      std::is_same_v<U, float> && std::is_same_v<T, half> ? 1u << int(RoundMode::CAST_RINT) | 1u << int(RoundMode::CAST_NONE) :
      std::is_same_v<U, float> && std::is_same_v<T, bfloat16_t> ? 1u << int(RoundMode::CAST_RINT) :
      std::is_same_v<U, float> && std::is_same_v<T, float> ? 1u << int(RoundMode::CAST_RINT) | 1u << int(RoundMode::CAST_FLOOR) | 1u << int(RoundMode::CAST_CEIL) | 1u << int(RoundMode::CAST_TRUNC) :
      std::is_same_v<U, float> && std::is_same_v<T, int32_t> ? 1u << int(RoundMode::CAST_RINT) :
      std::is_same_v<U, float> && std::is_same_v<T, int64_t> ? 1u << int(RoundMode::CAST_RINT) :
      0u
      ;
  static_assert(modes != 0, "Cast has no form between these types");
  if (!(modes >> int(roundMode) & 1)) model::tell("a wrong rounding mode");
  model::called = "Cast";
  model::aligned("Cast", "dst", dst.at, 32);
  model::aligned("Cast", "src", src.at, 32);
  model::within("Cast", "mask", mask, 1, 64);
  model::within("Cast", "repeatTime", repeatTime, 0, 255);
  model::Cast(dst, src, roundMode, uint64_t(mask), uint8_t(repeatTime), repeatParams);
}
template <typename T>
void CreateVecIndex(const LocalTensor<T> &dst, const T &firstValue, int64_t count) {
  static_assert(model::one_of<T, half, float, int16_t, int32_t>, "CreateVecIndex has no form for elements of this type");
  model::called = "CreateVecIndex";
  model::aligned("CreateVecIndex", "dst", dst.at, 32);
  model::within("CreateVecIndex", "count", count, 0, 4294967295ll);
  static const std::vector<model::Step> steps = {{PIPE_S, PIPE_S}, {PIPE_S, PIPE_V}, {PIPE_V, PIPE_V}};
  model::CreateVecIndex(dst, firstValue, uint32_t(count), steps);
}
template <typename T, typename U>
void Compare(const LocalTensor<U> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1, CMPMODE cmpMode, int64_t count) {
  static_assert(model::one_of<T, half, float, int32_t>, "Compare has no form for elements of this type");
  static_assert(model::one_of<U, uint8_t, int8_t>, "Compare has no form for elements of this type");
  static_assert(MODEL_CHIP != 2002 || !model::one_of<T, int32_t>, "Compare of 2002 has no form for elements of this type");
  model::called = "Compare";
  if (std::is_same_v<T, int32_t> && cmpMode != CMPMODE::EQ) model::tell("Compare: a comparison that elements of this type lack");
  model::aligned("Compare", "dst", dst.at, 32);
  model::aligned("Compare", "src0", src0.at, 32);
  model::aligned("Compare", "src1", src1.at, 32);
  model::within("Compare", "count", count, 0, 4294967295ll);
  model::whole("Compare", "count", count, 256 / sizeof(T));
  model::Compare(dst, src0, src1, cmpMode, uint32_t(count));
}
template <typename T, typename U>
void CompareScalar(const LocalTensor<U> &dst, const LocalTensor<T> &src0, const T &src1Scalar, CMPMODE cmpMode, int64_t count) {
  static_assert(model::one_of<T, half, float, int32_t>, "CompareScalar has no form for elements of this type");
  static_assert(model::one_of<U, uint8_t, int8_t>, "CompareScalar has no form for elements of this type");
  static_assert(MODEL_CHIP != 2002 || !model::one_of<T, int32_t>, "CompareScalar of 2002 has no form for elements of this type");
  model::called = "CompareScalar";
  if (std::is_same_v<T, int32_t> && cmpMode != CMPMODE::EQ) model::tell("CompareScalar: a comparison that elements of this type lack");
  model::aligned("CompareScalar", "dst", dst.at, 32);
  model::aligned("CompareScalar", "src0", src0.at, 32);
  model::within("CompareScalar", "count", count, 0, 4294967295ll);
  model::whole("CompareScalar", "count", count, 256 / sizeof(T));
  model::CompareScalar(dst, src0, src1Scalar, cmpMode, uint32_t(count));
}
template <typename T, typename U>
void Select(const LocalTensor<T> &dst, const LocalTensor<U> &selMask, const LocalTensor<T> &src0, const LocalTensor<T> &src1, SELMODE selMode, int64_t count) {
  static_assert(model::one_of<T, half, float>, "Select has no form for elements of this type");
  static_assert(model::one_of<U, uint8_t, uint16_t, uint32_t, uint64_t>, "Select has no form for elements of this type");
  model::called = "Select";
  model::aligned("Select", "dst", dst.at, 32);
  model::aligned("Select", "selMask", selMask.at, 32);
  model::aligned("Select", "src0", src0.at, 32);
  model::aligned("Select", "src1", src1.at, 32);
  model::within("Select", "count", count, 0, 4294967295ll);
  model::Select(dst, selMask, src0, src1, selMode, uint32_t(count));
}
template <typename T, typename U>
void Select(const LocalTensor<T> &dst, const LocalTensor<U> &selMask, const LocalTensor<T> &src0, const T &src1, SELMODE selMode, int64_t count) {
  static_assert(model::one_of<T, half, float>, "Select has no form for elements of this type");
  static_assert(model::one_of<U, uint8_t, uint16_t, uint32_t, uint64_t>, "Select has no form for elements of this type");
  model::called = "Select";
  model::aligned("Select", "dst", dst.at, 32);
  model::aligned("Select", "selMask", selMask.at, 32);
  model::aligned("Select", "src0", src0.at, 32);
  model::within("Select", "count", count, 0, 4294967295ll);
  model::Select(dst, selMask, src0, src1, selMode, uint32_t(count));
}
template <typename T>
void ReduceSum(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LocalTensor<T> &sharedTmpBuffer, int64_t count) {
  static_assert(model::one_of<T, half, float>, "ReduceSum has no form for elements of this type");
  model::called = "ReduceSum";
  model::aligned("ReduceSum", "dst", dst.at, 8);
  model::aligned("ReduceSum", "src", src.at, 32);
  model::aligned("ReduceSum", "sharedTmpBuffer", sharedTmpBuffer.at, 32);
  model::within("ReduceSum", "count", count, 1, 196608 / sizeof(T));
  static const std::vector<model::Step> steps = {{PIPE_V, PIPE_V}, {PIPE_V, PIPE_S}, {PIPE_S, PIPE_S}, {PIPE_S, PIPE_V}, {PIPE_S, PIPE_MTE3}};
  model::ReduceSum(dst, src, sharedTmpBuffer, int32_t(count), steps);
}
template <typename T>
void ReduceMax(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LocalTensor<T> &sharedTmpBuffer, int64_t count) {
  static_assert(model::one_of<T, half, float>, "ReduceMax has no form for elements of this type");
  model::called = "ReduceMax";
  model::aligned("ReduceMax", "dst", dst.at, 8);
  model::aligned("ReduceMax", "src", src.at, 32);
  model::aligned("ReduceMax", "sharedTmpBuffer", sharedTmpBuffer.at, 32);
  model::within("ReduceMax", "count", count, 1, 196608 / sizeof(T));
  static const std::vector<model::Step> steps = {{PIPE_V, PIPE_V}, {PIPE_V, PIPE_S}, {PIPE_S, PIPE_S}, {PIPE_S, PIPE_V}, {PIPE_S, PIPE_MTE3}};
  model::ReduceMax(dst, src, sharedTmpBuffer, int32_t(count), steps);
}
template <typename T>
void ReduceMin(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LocalTensor<T> &sharedTmpBuffer, int64_t count) {
  static_assert(model::one_of<T, half, float>, "ReduceMin has no form for elements of this type");
  model::called = "ReduceMin";
  model::aligned("ReduceMin", "dst", dst.at, 8);
  model::aligned("ReduceMin", "src", src.at, 32);
  model::aligned("ReduceMin", "sharedTmpBuffer", sharedTmpBuffer.at, 32);
  model::within("ReduceMin", "count", count, 1, 196608 / sizeof(T));
  static const std::vector<model::Step> steps = {{PIPE_V, PIPE_V}, {PIPE_V, PIPE_S}, {PIPE_S, PIPE_S}, {PIPE_S, PIPE_V}, {PIPE_S, PIPE_MTE3}};
  model::ReduceMin(dst, src, sharedTmpBuffer, int32_t(count), steps);
}
template <typename T>
void WholeReduceSum(const LocalTensor<T> &dst, const LocalTensor<T> &src, int64_t mask, int64_t repeatTime, int64_t dstRepStride, int64_t srcBlkStride, int64_t srcRepStride) {
  static_assert(model::one_of<T, half, float>, "WholeReduceSum has no form for elements of this type");
  model::called = "WholeReduceSum";
  model::aligned("WholeReduceSum", "dst", dst.at, 4);
  model::aligned("WholeReduceSum", "src", src.at, 32);
  model::within("WholeReduceSum", "mask", mask, 1, 256 / sizeof(T));
  model::within("WholeReduceSum", "repeatTime", repeatTime, 0, 255);
  model::within("WholeReduceSum", "dstRepStride", dstRepStride, 0, 65535);
  model::within("WholeReduceSum", "srcBlkStride", srcBlkStride, 0, 65535);
  model::within("WholeReduceSum", "srcRepStride", srcRepStride, 0, 65535);
  model::WholeReduceSum(dst, src, int32_t(mask), int32_t(repeatTime), int32_t(dstRepStride), int32_t(srcBlkStride), int32_t(srcRepStride));
}
template <typename T>
void WholeReduceMax(const LocalTensor<T> &dst, const LocalTensor<T> &src, int64_t mask, int64_t repeatTime, int64_t dstRepStride, int64_t srcBlkStride, int64_t srcRepStride, ReduceOrder order) {
  static_assert(model::one_of<T, half, float>, "WholeReduceMax has no form for elements of this type");
  model::called = "WholeReduceMax";
  model::aligned("WholeReduceMax", "dst", dst.at, 4);
  model::aligned("WholeReduceMax", "src", src.at, 32);
  model::within("WholeReduceMax", "mask", mask, 1, 256 / sizeof(T));
  model::within("WholeReduceMax", "repeatTime", repeatTime, 0, 255);
  model::within("WholeReduceMax", "dstRepStride", dstRepStride, 0, 65535);
  model::within("WholeReduceMax", "srcBlkStride", srcBlkStride, 0, 65535);
  model::within("WholeReduceMax", "srcRepStride", srcRepStride, 0, 65535);
  model::WholeReduceMax(dst, src, int32_t(mask), int32_t(repeatTime), int32_t(dstRepStride), int32_t(srcBlkStride), int32_t(srcRepStride), order);
}
template <typename T>
void WholeReduceMin(const LocalTensor<T> &dst, const LocalTensor<T> &src, int64_t mask, int64_t repeatTime, int64_t dstRepStride, int64_t srcBlkStride, int64_t srcRepStride, ReduceOrder order) {
  static_assert(model::one_of<T, half, float>, "WholeReduceMin has no form for elements of this type");
  model::called = "WholeReduceMin";
  model::aligned("WholeReduceMin", "dst", dst.at, 4);
  model::aligned("WholeReduceMin", "src", src.at, 32);
  model::within("WholeReduceMin", "mask", mask, 1, 256 / sizeof(T));
  model::within("WholeReduceMin", "repeatTime", repeatTime, 0, 255);
  model::within("WholeReduceMin", "dstRepStride", dstRepStride, 0, 65535);
  model::within("WholeReduceMin", "srcBlkStride", srcBlkStride, 0, 65535);
  model::within("WholeReduceMin", "srcRepStride", srcRepStride, 0, 65535);
  model::WholeReduceMin(dst, src, int32_t(mask), int32_t(repeatTime), int32_t(dstRepStride), int32_t(srcBlkStride), int32_t(srcRepStride), order);
}
template <typename T>
void BlockReduceSum(const LocalTensor<T> &dst, const LocalTensor<T> &src, int64_t repeatTime, int64_t mask, int64_t dstRepStride, int64_t srcBlkStride, int64_t srcRepStride) {
  static_assert(model::one_of<T, half, float>, "BlockReduceSum has no form for elements of this type");
  model::called = "BlockReduceSum";
  model::aligned("BlockReduceSum", "dst", dst.at, 32);
  model::aligned("BlockReduceSum", "src", src.at, 32);
  model::within("BlockReduceSum", "repeatTime", repeatTime, 0, 255);
  model::within("BlockReduceSum", "mask", mask, 1, 256 / sizeof(T));
  model::within("BlockReduceSum", "dstRepStride", dstRepStride, 0, 65535);
  model::within("BlockReduceSum", "srcBlkStride", srcBlkStride, 0, 65535);
  model::within("BlockReduceSum", "srcRepStride", srcRepStride, 0, 65535);
  model::BlockReduceSum(dst, src, int32_t(repeatTime), int32_t(mask), int32_t(dstRepStride), int32_t(srcBlkStride), int32_t(srcRepStride));
}
template <typename T>
void BlockReduceMax(const LocalTensor<T> &dst, const LocalTensor<T> &src, int64_t repeatTime, int64_t mask, int64_t dstRepStride, int64_t srcBlkStride, int64_t srcRepStride) {
  static_assert(model::one_of<T, half, float>, "BlockReduceMax has no form for elements of this type");
  model::called = "BlockReduceMax";
  model::aligned("BlockReduceMax", "dst", dst.at, 32);
  model::aligned("BlockReduceMax", "src", src.at, 32);
  model::within("BlockReduceMax", "repeatTime", repeatTime, 0, 255);
  model::within("BlockReduceMax", "mask", mask, 1, 256 / sizeof(T));
  model::within("BlockReduceMax", "dstRepStride", dstRepStride, 0, 65535);
  model::within("BlockReduceMax", "srcBlkStride", srcBlkStride, 0, 65535);
  model::within("BlockReduceMax", "srcRepStride", srcRepStride, 0, 65535);
  model::BlockReduceMax(dst, src, int32_t(repeatTime), int32_t(mask), int32_t(dstRepStride), int32_t(srcBlkStride), int32_t(srcRepStride));
}
template <typename T>
void BlockReduceMin(const LocalTensor<T> &dst, const LocalTensor<T> &src, int64_t repeatTime, int64_t mask, int64_t dstRepStride, int64_t srcBlkStride, int64_t srcRepStride) {
  static_assert(model::one_of<T, half, float>, "BlockReduceMin has no form for elements of this type");
  model::called = "BlockReduceMin";
  model::aligned("BlockReduceMin", "dst", dst.at, 32);
  model::aligned("BlockReduceMin", "src", src.at, 32);
  model::within("BlockReduceMin", "repeatTime", repeatTime, 0, 255);
  model::within("BlockReduceMin", "mask", mask, 1, 256 / sizeof(T));
  model::within("BlockReduceMin", "dstRepStride", dstRepStride, 0, 65535);
  model::within("BlockReduceMin", "srcBlkStride", srcBlkStride, 0, 65535);
  model::within("BlockReduceMin", "srcRepStride", srcRepStride, 0, 65535);
  model::BlockReduceMin(dst, src, int32_t(repeatTime), int32_t(mask), int32_t(dstRepStride), int32_t(srcBlkStride), int32_t(srcRepStride));
}
template <typename T>
void Brcb(const LocalTensor<T> &dst, const LocalTensor<T> &src0, int64_t repeatTime, const BrcbRepeatParams &repeatParams) {
  static_assert(model::one_of<T, half, bfloat16_t, float, int16_t, uint16_t, int32_t, uint32_t>, "Brcb has no form for elements of this type");
  model::called = "Brcb";
  model::aligned("Brcb", "dst", dst.at, 32);
  model::aligned("Brcb", "src0", src0.at, 32);
  model::within("Brcb", "repeatTime", repeatTime, 0, 255);
  model::Brcb(dst, src0, uint8_t(repeatTime), repeatParams);
}
template <typename T>
void Gather(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LocalTensor<uint32_t> &srcOffset, int64_t srcBaseAddr, int64_t count) {
  static_assert(model::one_of<T, half, bfloat16_t, float, int16_t, uint16_t, int32_t, uint32_t>, "Gather has no form for elements of this type");
  model::called = "Gather";
  model::aligned("Gather", "dst", dst.at, 32);
  model::aligned("Gather", "src", src.at, 32);
  model::aligned("Gather", "srcOffset", srcOffset.at, 32);
  model::within("Gather", "srcBaseAddr", srcBaseAddr, 0, 4294967295ll);
  model::within("Gather", "count", count, 0, 4294967295ll);
  model::Gather(dst, src, srcOffset, uint32_t(srcBaseAddr), uint32_t(count));
}
template <typename T>
void TransDataTo5HD(uint64_t (&dstList)[16], uint64_t (&srcList)[16], const TransDataTo5HDParams &nchwconvParams) {
  static_assert(model::one_of<T, int8_t, uint8_t, int16_t, uint16_t, half, int32_t, uint32_t, float>, "TransDataTo5HD has no form for elements of this type");
  model::called = "TransDataTo5HD";
  for (auto x : dstList) model::aligned("TransDataTo5HD", "dstList", (const void *)x, 32);
  for (auto x : srcList) model::aligned("TransDataTo5HD", "srcList", (const void *)x, 32);
  model::TransDataTo5HD<T>(dstList, srcList, nchwconvParams);
}
template <typename T>
void DataCopyPad(const LocalTensor<T> &dst, const GlobalTensor<T> &src, const DataCopyExtParams &dataCopyParams, const DataCopyPadExtParams<T> &padParams) {
  model::called = "DataCopyPad";
  model::aligned("DataCopyPad", "dst", dst.at, 32);
  model::DataCopyPad(dst, src, dataCopyParams, padParams);
}
template <typename T>
void DataCopyPad(const GlobalTensor<T> &dst, const LocalTensor<T> &src, const DataCopyExtParams &dataCopyParams) {
  model::called = "DataCopyPad";
  model::aligned("DataCopyPad", "src", src.at, 32);
  model::DataCopyPad(dst, src, dataCopyParams);
}
template <typename T>
void DataCopy(const LocalTensor<T> &dst, const GlobalTensor<T> &src, const Nd2NzParams &intriParams) {
  model::called = "DataCopy";
  model::aligned("DataCopy", "dst", dst.at, 32);
  model::DataCopy(dst, src, intriParams);
}
template <typename T>
void DataCopy(const LocalTensor<T> &dst, const GlobalTensor<T> &src, int64_t count) {
  model::called = "DataCopy";
  model::aligned("DataCopy", "dst", dst.at, 32);
  model::within("DataCopy", "count", count, 0, 4294967295ll);
  model::whole("DataCopy", "count", count, 32 / sizeof(T));
  model::DataCopy(dst, src, uint32_t(count));
}
template <typename T>
void DataCopy(const LocalTensor<T> &dst, const GlobalTensor<T> &src, const DataCopyParams &repeatParams) {
  model::called = "DataCopy";
  model::aligned("DataCopy", "dst", dst.at, 32);
  model::DataCopy(dst, src, repeatParams);
}
template <typename T>
void DataCopy(const GlobalTensor<T> &dst, const LocalTensor<T> &src, int64_t count) {
  model::called = "DataCopy";
  model::aligned("DataCopy", "src", src.at, 32);
  model::within("DataCopy", "count", count, 0, 4294967295ll);
  model::whole("DataCopy", "count", count, 32 / sizeof(T));
  model::DataCopy(dst, src, uint32_t(count));
}
template <typename T>
void DataCopy(const GlobalTensor<T> &dst, const LocalTensor<T> &src, const DataCopyParams &repeatParams) {
  model::called = "DataCopy";
  model::aligned("DataCopy", "src", src.at, 32);
  model::DataCopy(dst, src, repeatParams);
}
template <typename T>
void InitConstValue(const LocalTensor<T> &dst, const InitConstValueParams<T> &initConstValueParams) {
  static_assert(model::one_of<T, half, bfloat16_t, float, int16_t, uint16_t, int32_t, uint32_t>, "InitConstValue has no form for elements of this type");
  model::called = "InitConstValue";
  model::aligned("InitConstValue", "dst", dst.at, 32);
  model::InitConstValue(dst, initConstValueParams);
}
template <typename T>
void LoadData(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LoadData2DParams &loadDataParams) {
  model::called = "LoadData";
  model::aligned("LoadData", "dst", dst.at, 512);
  model::aligned("LoadData", "src", src.at, 32);
  model::LoadData(dst, src, loadDataParams);
}
template <typename T>
void LoadData(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LoadData3DParamsV2Pro &loadDataParams) {
  static_assert(model::one_of<T, half, bfloat16_t, float>, "LoadData has no form for elements of this type");
  model::called = "LoadData";
  model::aligned("LoadData", "dst", dst.at, 512);
  model::aligned("LoadData", "src", src.at, 32);
  model::LoadData(dst, src, loadDataParams);
}
inline void SetFmatrix(int64_t l1H, int64_t l1W, uint8_t (&padList)[4], FmatrixMode fmatrixMode) {
  model::called = "SetFmatrix";
  model::within("SetFmatrix", "l1H", l1H, 1, 32767);
  model::within("SetFmatrix", "l1W", l1W, 1, 32767);
  model::SetFmatrix(uint16_t(l1H), uint16_t(l1W), padList, fmatrixMode);
}
template <typename T>
void LoadDataWithTranspose(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LoadData2dTransposeParams &loadDataParams) {
  static_assert(model::one_of<T, half, bfloat16_t, float, int32_t, uint32_t, int8_t, uint8_t>, "LoadDataWithTranspose has no form for elements of this type");
  model::called = "LoadDataWithTranspose";
  model::aligned("LoadDataWithTranspose", "dst", dst.at, 512);
  model::aligned("LoadDataWithTranspose", "src", src.at, 32);
  model::LoadDataWithTranspose(dst, src, loadDataParams);
}
template <typename T, typename U, typename S>
void Mmad(const LocalTensor<T> &dst, const LocalTensor<U> &fm, const LocalTensor<S> &filter, const MmadParams &mmadParams) {
  static_assert(model::one_of<T, float, int32_t>, "Mmad has no form for elements of this type");
  static_assert(model::one_of<U, half, bfloat16_t, float, int8_t>, "Mmad has no form for elements of this type");
  static_assert(model::one_of<S, half, bfloat16_t, float, int8_t>, "Mmad has no form for elements of this type");
  static_assert(MODEL_CHIP != 2002 || !model::one_of<U, bfloat16_t, float>, "Mmad of 2002 has no form for elements of this type");
  static_assert(MODEL_CHIP != 2002 || !model::one_of<S, bfloat16_t, float>, "Mmad of 2002 has no form for elements of this type");
  model::called = "Mmad";
  model::aligned("Mmad", "dst", dst.at, 1024);
  model::aligned("Mmad", "fm", fm.at, 512);
  model::aligned("Mmad", "filter", filter.at, 512);
  model::Mmad(dst, fm, filter, mmadParams);
}
template <typename T, typename U, int config>
void Fixpipe(const GlobalTensor<T> &dst, const LocalTensor<U> &src, const FixpipeParamsV220 &intriParams) {
  model::called = "Fixpipe";
  model::aligned("Fixpipe", "src", src.at, 64);
  model::Fixpipe<T, U, config>(dst, src, intriParams);
}
template <HardEvent event>
void SetFlag(int64_t eventID) {
  model::called = "SetFlag";
  model::within("SetFlag", "eventID", eventID, 0, 7);
  model::SetFlag<event>(int32_t(eventID));
}
template <HardEvent event>
void WaitFlag(int64_t eventID) {
  model::called = "WaitFlag";
  model::within("WaitFlag", "eventID", eventID, 0, 7);
  model::WaitFlag<event>(int32_t(eventID));
}
template <pipe_t pipe>
void PipeBarrier() {
  model::called = "PipeBarrier";
  model::PipeBarrier<pipe>();
}
template <uint8_t modeId, pipe_t pipe>
void CrossCoreSetFlag(int64_t flagId) {
  model::called = "CrossCoreSetFlag";
  model::within("CrossCoreSetFlag", "flagId", flagId, 0, 15);
  model::CrossCoreSetFlag<modeId, pipe>(uint16_t(flagId));
}
inline void CrossCoreWaitFlag(int64_t flagId) {
  model::called = "CrossCoreWaitFlag";
  model::within("CrossCoreWaitFlag", "flagId", flagId, 0, 15);
  model::CrossCoreWaitFlag(uint16_t(flagId));
}
inline int64_t GetBlockIdx() {
  model::called = "GetBlockIdx";
  return model::GetBlockIdx();
}
inline int64_t GetBlockNum() {
  model::called = "GetBlockNum";
  return model::GetBlockNum();
}
inline int64_t GetSubBlockIdx() {
  model::called = "GetSubBlockIdx";
  return model::GetSubBlockIdx();
}
template <typename T, CacheLine entireType, DcciDst dcciDst>
void DataCacheCleanAndInvalid(const GlobalTensor<T> &dst) {
  model::called = "DataCacheCleanAndInvalid";
  model::DataCacheCleanAndInvalid<T, entireType, dcciDst>(dst);
}
template <typename T, CacheLine entireType>
void DataCacheCleanAndInvalid(const GlobalTensor<T> &dst) {
  model::called = "DataCacheCleanAndInvalid";
  model::DataCacheCleanAndInvalid<T, entireType>(dst);
}
template <typename T>
void DataCopy(const LocalTensor<T> &dst, const LocalTensor<T> &src, const DataCopyParams &intriParams, const DataCopyEnhancedParams &enhancedParams) {
  static_assert(model::one_of<T, float, half>, "DataCopy has no form for elements of this type");
  model::called = "DataCopy";
  model::aligned("DataCopy", "dst", dst.at, 32);
  model::aligned("DataCopy", "src", src.at, 32);
  model::DataCopy(dst, src, intriParams, enhancedParams);
}
template <typename T>
void DataCopy(const LocalTensor<T> &dst, const LocalTensor<T> &src, const DataCopyParams &repeatParams) {
  model::called = "DataCopy";
  model::aligned("DataCopy", "dst", dst.at, 32);
  model::aligned("DataCopy", "src", src.at, 32);
  model::DataCopy(dst, src, repeatParams);
}
}  // namespace AscendC
