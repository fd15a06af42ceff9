// SPDX-License-Identifier: Apache-2.0

//go:build linux

#include "textflag.h"

DATA ·handlerAddress(SB)/8, $·handler(SB)
GLOBL ·handlerAddress(SB), RODATA, $8

// handler is what the kernel calls for a signal, on any thread: it writes the number, and nothing else.
TEXT ·handler(SB), NOSPLIT|NOFRAME|TOPFRAME, $0
	SUBQ $8, SP
	MOVB DI, 0(SP)
	MOVL ·numbers(SB), DI
	MOVQ SP, SI
	MOVL $1, DX
	MOVL $1, AX // write
	SYSCALL
	ADDQ $8, SP
	RET // to the runtime's restorer
