// SPDX-License-Identifier: Apache-2.0

//go:build linux

#include "textflag.h"

// func forkOn(trap, a1, a2, a3, a4, a5 uintptr, c *child, gp *goroutine) (pid int)
//
// The new process has another stack, so c and gp are in registers that the kernel preserves.
TEXT ·forkOn(SB), NOSPLIT|NOFRAME, $0-72
	MOVD trap+0(FP), R8
	MOVD a1+8(FP), R0
	MOVD a2+16(FP), R1
	MOVD a3+24(FP), R2
	MOVD a4+32(FP), R3
	MOVD a5+40(FP), R4
	MOVD c+48(FP), R19
	MOVD gp+56(FP), R20
	SVC
	CBZ  R0, child
	MOVD R0, pid+64(FP)
	RET

child:
	MOVD R20, g
	SUB  $32, RSP
	MOVD R19, 8(RSP)
	CALL ·rawMain(SB)
	BRK

// func vfork(trap, a1, a2 uintptr) (pid int)
//
// The child returns first, on the stack that it shares with the suspended parent.
// The return address is in the link register, which each of the two has of its own.
TEXT ·vfork(SB), NOSPLIT|NOFRAME, $0-32
	MOVD trap+0(FP), R8
	MOVD a1+8(FP), R0
	MOVD a2+16(FP), R1
	MOVD ZR, R2
	MOVD ZR, R3
	MOVD ZR, R4
	SVC
	MOVD R0, pid+24(FP)
	RET

// func zeroed() (addr, end uintptr)
TEXT ·zeroed(SB), NOSPLIT, $0-16
	MOVD $runtime·bss(SB), R0
	MOVD R0, addr+0(FP)
	MOVD $runtime·end(SB), R0
	MOVD R0, end+8(FP)
	RET

// func writable() uintptr
TEXT ·writable(SB), NOSPLIT, $0-8
	MOVD $runtime·noptrdata(SB), R0
	MOVD R0, ret+0(FP)
	RET
