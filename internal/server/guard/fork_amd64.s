// SPDX-License-Identifier: Apache-2.0

//go:build linux

#include "textflag.h"

// func forkOn(trap, a1, a2, a3, a4, a5 uintptr, c *child, gp *goroutine) (pid int)
//
// The new process has another stack, so c is in a register that the kernel preserves. Its g is where its thread-local
// storage says (CLONE_SETTLS).
TEXT ·forkOn(SB), NOSPLIT|NOFRAME, $0-72
	MOVQ trap+0(FP), AX
	MOVQ a1+8(FP), DI
	MOVQ a2+16(FP), SI
	MOVQ a3+24(FP), DX
	MOVQ a4+32(FP), R10
	MOVQ a5+40(FP), R8
	MOVQ c+48(FP), R13
	SYSCALL
	TESTQ AX, AX
	JZ   child
	MOVQ AX, pid+64(FP)
	RET

child:
	SUBQ $16, SP
	MOVQ R13, 0(SP)
	CALL ·rawMain(SB)
	INT  $3

// func vfork(trap, a1, a2 uintptr) (pid int)
//
// The child returns first, on the stack that it shares with the suspended parent,
// and may overwrite everything below the caller's frame, our return address included.
// So that is kept in R12, which the kernel preserves in each of the two.
TEXT ·vfork(SB), NOSPLIT|NOFRAME, $0-32
	MOVQ trap+0(FP), AX
	MOVQ a1+8(FP), DI
	MOVQ a2+16(FP), SI
	XORL DX, DX
	XORL R10, R10
	XORL R8, R8
	POPQ R12
	SYSCALL
	PUSHQ R12
	MOVQ AX, pid+24(FP)
	RET

// func zeroed() (addr, end uintptr)
TEXT ·zeroed(SB), NOSPLIT, $0-16
	LEAQ runtime·bss(SB), AX
	MOVQ AX, addr+0(FP)
	LEAQ runtime·end(SB), AX
	MOVQ AX, end+8(FP)
	RET

// func writable() uintptr
TEXT ·writable(SB), NOSPLIT, $0-8
	LEAQ runtime·noptrdata(SB), AX
	MOVQ AX, ret+0(FP)
	RET
