// SPDX-License-Identifier: Apache-2.0

//go:build linux && !cgo

#include "textflag.h"

// The runtime calls _cgo_init, if that is set, as the first thing: with g0 in DI, before it has a heap, or any
// other thread. It leaves the thread-local storage to this function.
DATA _cgo_init+0(SB)/8, $·hook(SB)
GLOBL _cgo_init(SB), NOPTR, $8

TEXT ·hook(SB), NOSPLIT|NOFRAME, $0
	MOVQ 40(SP), BX     // argv, which rt0_go has saved
	LEAQ ·tls+8(SB), SI
	MOVQ DI, -8(SI)
	MOVQ $0x1002, DI    // ARCH_SET_FS; g is at -8(FS)
	MOVL $158, AX       // arch_prctl
	SYSCALL
	SUBQ $24, SP
	MOVQ BX, 0(SP)
	MOVQ SP, 8(SP)
	CALL ·begin(SB)
	MOVQ 16(SP), BX
	ADDQ $24, SP
	MOVQ BX, 40(SP)
	RET
