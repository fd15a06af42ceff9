// SPDX-License-Identifier: Apache-2.0

//go:build linux && !cgo

#include "textflag.h"

// The runtime calls _cgo_init, if that is set, as the first thing: with g0 as g, before it has a heap, or any
// other thread.
DATA _cgo_init+0(SB)/8, $·hook(SB)
GLOBL _cgo_init(SB), NOPTR, $8

TEXT ·hook(SB), NOSPLIT|NOFRAME, $0
	MOVD 32(RSP), R0 // argv, which rt0_go has saved
	MOVD RSP, R1
	SUB  $48, RSP
	MOVD R30, 40(RSP)
	MOVD R0, 8(RSP)
	MOVD R1, 16(RSP)
	CALL ·begin(SB)
	MOVD 24(RSP), R0
	MOVD 40(RSP), R30
	ADD  $48, RSP
	MOVD R0, 32(RSP)
	RET
