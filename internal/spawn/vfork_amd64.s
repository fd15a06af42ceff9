// SPDX-License-Identifier: Apache-2.0

//go:build linux

#include "textflag.h"

// func vfork(trap, a1, a2 uintptr) (pid, errno uintptr)
//
// The child comes back first, on the stack that it shares with the suspended parent,
// and may overwrite everything below the caller's frame, our return address included.
// So that is kept in R12, which the kernel preserves in each of the two.
TEXT ·vfork(SB), NOSPLIT|NOFRAME, $0-40
	MOVQ trap+0(FP), AX
	MOVQ a1+8(FP), DI
	MOVQ a2+16(FP), SI
	XORL DX, DX
	XORL R10, R10
	XORL R8, R8
	POPQ R12
	SYSCALL
	PUSHQ R12
	CMPQ AX, $0xfffffffffffff001
	JCC  failed
	MOVQ AX, pid+24(FP)
	MOVQ $0, errno+32(FP)
	RET

failed:
	NEGQ AX
	MOVQ $0, pid+24(FP)
	MOVQ AX, errno+32(FP)
	RET
