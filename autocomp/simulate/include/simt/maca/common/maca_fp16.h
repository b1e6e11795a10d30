// On the CPU model all of the SDK lies in one header.
#pragma once
#include "../mc_runtime.h"
