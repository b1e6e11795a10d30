// The stand-in for this header of the SDK.
#pragma once
#include "../standin.h"
