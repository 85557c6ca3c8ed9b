#include "textflag.h"

TEXT ·High(SB), NOSPLIT, $0-8
	MOVD 8(g), R0
	MOVD R0, ret+0(FP)
	RET

TEXT ·Frame(SB), NOSPLIT, $0-8
	MOVD R29, ret+0(FP)
	RET
