// SPDX-License-Identifier: Apache-2.0

//go:build linux

#include "textflag.h"

// func vfork(trap, a1, a2 uintptr) (pid, errno uintptr)
//
// The child comes back first, on the stack that it shares with the suspended parent.
// The return address is in the link register, which each of the two has of its own.
TEXT ·vfork(SB), NOSPLIT|NOFRAME, $0-40
	MOVD trap+0(FP), R8
	MOVD a1+8(FP), R0
	MOVD a2+16(FP), R1
	MOVD ZR, R2
	MOVD ZR, R3
	MOVD ZR, R4
	SVC
	CMN  $4095, R0
	BCS  failed
	MOVD R0, pid+24(FP)
	MOVD ZR, errno+32(FP)
	RET

failed:
	NEG  R0, R0
	MOVD ZR, pid+24(FP)
	MOVD R0, errno+32(FP)
	RET
