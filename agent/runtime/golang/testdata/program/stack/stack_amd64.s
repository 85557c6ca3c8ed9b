#include "textflag.h"

TEXT ·High(SB), NOSPLIT, $0-8
	MOVQ (TLS), AX
	MOVQ 8(AX), AX
	MOVQ AX, ret+0(FP)
	RET

TEXT ·Frame(SB), NOSPLIT, $0-8
	MOVQ BP, ret+0(FP)
	RET
