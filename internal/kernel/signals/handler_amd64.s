// SPDX-License-Identifier: Apache-2.0

//go:build linux

#include "textflag.h"

// The handler: write(end, &number, 1). It runs on the signal stack of whatever thread the kernel has chosen, with no goroutine to
// speak of. The kernel brings back all registers.
TEXT handler<>(SB), NOSPLIT|NOFRAME|TOPFRAME, $0
	SUBQ $16, SP
	MOVB DI, (SP)
	MOVL ·end(SB), DI
	MOVQ SP, SI
	MOVL $1, DX
	MOVL $1, AX // write
	SYSCALL
	ADDQ $16, SP
	RET

TEXT restorer<>(SB), NOSPLIT|NOFRAME|TOPFRAME, $0
	MOVL $15, AX // rt_sigreturn
	SYSCALL
	INT  $3

// func handlers() (handler, restorer uintptr)
TEXT ·handlers(SB), NOSPLIT, $0-16
	LEAQ handler<>(SB), AX
	MOVQ AX, handler+0(FP)
	LEAQ restorer<>(SB), AX
	MOVQ AX, restorer+8(FP)
	RET
