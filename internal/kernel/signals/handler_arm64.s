// SPDX-License-Identifier: Apache-2.0

//go:build linux

#include "textflag.h"

// The handler: write(end, &number, 1). It runs on the signal stack of whatever thread the kernel has chosen, with no goroutine to
// speak of. It returns to the kernel's own code for that, in the vDSO, which brings back all registers.
TEXT handler<>(SB), NOSPLIT|NOFRAME|TOPFRAME, $0
	SUB  $16, RSP
	MOVB R0, (RSP)
	MOVW ·end(SB), R0
	MOVD RSP, R1
	MOVD $1, R2
	MOVD $64, R8 // write
	SVC
	ADD  $16, RSP
	RET

// func handlers() (handler, restorer uintptr)
TEXT ·handlers(SB), NOSPLIT, $0-16
	MOVD $handler<>(SB), R0
	MOVD R0, handler+0(FP)
	MOVD ZR, restorer+8(FP)
	RET
