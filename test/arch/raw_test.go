// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// Raw code is Go that runs without a Go runtime. Code that needs the runtime compiles nevertheless, and crashes
// when it runs. A rare event may be the first to run it. So TestRaw reads the machine code of the runner: it
// follows all calls from the entries below, and checks each function that it reaches.
//
//   - A call of the runtime is a failure, unless it is in allowedCalls.
//   - This covers the heap. A value that escapes is a call of runtime.newobject, makeslice, growslice, convT or
//     the like, in the function that has the value. So there is no need to read what -gcflags=-m prints.
//   - This covers write barriers, too: a store of a pointer comes with a call of runtime.gcWriteBarrier or wbMove
//     unless the compiler knows that the memory is a stack's.
//   - A call of a value is a failure, because the code does not say what it calls.
//   - A chain of calls that needs more stack than the process has is a failure, and so is recursion.
//   - In a process that has no copy of them, the use of a writable variable is a failure.
//
// It can't see that a variable is read before an init function has set it.

// place is where raw code runs.
type place struct {
	name, reason string
	// stack is the size in bytes of the stack that begins at the entry. With 0 the entry borrows the stack of
	// a goroutine. Then each function has to be go:nosplit, and the linker proves that the stack is large
	// enough.
	stack int
	// noVariables: the process has no copy of writable memory.
	noVariables bool
}

var (
	// Functions compare the stack pointer with g0's guard, which rt0_go has set 64 kB below its own frame,
	// and call runtime.morestack only below that.
	beforeRuntime = &place{
		name:   "before the runtime",
		reason: "there is no heap, no goroutine and no garbage collector yet",
		stack:  64 << 10,
	}
	// runtime.morestack would move a stack that two processes use.
	borrowedStack = &place{
		name:   "in a process that borrows the memory of its parent",
		reason: "the runtime's locks and threads are those of the parent",
	}
	// The stack guard of its g is 0, so that no function calls runtime.morestack. Nothing but this test
	// notices a stack that is too small. All signals are blocked, so that no handler needs room on it.
	forkedGuard = &place{
		name:        "in the guard",
		reason:      "the process has one thread without a Go runtime, and none of the runtime's memory",
		stack:       2 * 4096, // stackSize of package guard
		noVariables: true,
	}
)

const guard = module + room + "guard."

// rawEntries are the functions with which raw code begins. A walk from one entry stops at another one that has
// a stack of its own.
var rawEntries = []struct {
	function string
	where    *place
	reason   string
}{
	{
		function: "main.hook",
		where:    beforeRuntime,
		reason:   "rt0_go calls it as _cgo_init, and it calls begin",
	},
	{
		function: guard + "(*child).forkBetween",
		where:    borrowedStack,
		reason:   "its child by vfork forks the guard, and exits",
	},
	{
		function: guard + "(*child).forkHere",
		where:    borrowedStack,
		reason:   "it forks the main process, whose parent is the caller",
	},
	{
		function: guard + "rawMain",
		where:    forkedGuard,
		reason:   "forkOn calls it in the new process: a guard, or the main process before its exec",
	},
}

// allowedCalls are the calls of the runtime that work without one, or that are not reached.
var allowedCalls = []struct {
	callee  string
	callers []string // none: all
	where   []*place
	reason  string
}{
	{
		callee: "runtime.panicBounds",
		where:  []*place{beforeRuntime, forkedGuard},
		reason: "an index out of range is a bug: the process crashes here instead of there",
	},
	{
		callee: "runtime.panicunsafeslicelen",
		where:  []*place{beforeRuntime},
		reason: "the lengths are constants",
	},
	{
		callee: "runtime.panicunsafeslicenilptr",
		where:  []*place{beforeRuntime},
		reason: "the kernel's vectors are not nil",
	},
	{
		callee: "runtime.panicunsafestringlen",
		where:  []*place{beforeRuntime},
		reason: "the lengths are counted",
	},
	{
		callee: "runtime.memmove",
		where:  []*place{beforeRuntime},
		reason: "assembly; a variable says what the processor can do, and 0 is right for all of them",
	},
	{
		callee: "runtime.memequal",
		where:  []*place{beforeRuntime},
		reason: "assembly; a variable says what the processor can do, and 0 is right for all of them",
	},
	{
		callee: "runtime.decoderune",
		where:  []*place{beforeRuntime},
		reason: "it reads its arguments and nothing else",
	},
	{
		callee:  "runtime.intstring",
		callers: []string{"strings.IndexRune"},
		where:   []*place{beforeRuntime},
		reason:  "the result does not escape, so the caller has memory for it in its frame",
	},
	{
		callee: "runtime.gcWriteBarrier2",
		callers: []string{
			"main.beginRun", guard + "(*guardKeeper).dismiss", guard + "(*guardKeeper).replace",
			guard + "(*Plain).Run", guard + "(*Plain).prepare", guard + "(*Start).Execute",
			guard + "(*Start).fillBirth", guard + "(*Start).prepareForks", guard + "(*Start).resume",
			guard + "(*Start).startServer", guard + "(*lasting).newProcess",
		},
		where:  []*place{beforeRuntime},
		reason: "the code tests a flag first, which is 0 until the first garbage collection",
	},
	{
		callee:  "runtime.gcWriteBarrier3",
		callers: []string{guard + "(*lasting).newProcess"},
		where:   []*place{beforeRuntime},
		reason:  "as for gcWriteBarrier2",
	},
	{
		callee:  "runtime.gcWriteBarrier4",
		callers: []string{"main.beginRun"},
		where:   []*place{beforeRuntime},
		reason:  "as for gcWriteBarrier2",
	},
	{
		callee:  "runtime.gcWriteBarrier6", // (*Launcher).attach
		callers: []string{guard + "(*Start).resume", guard + "(*Plain).prepare"},
		where:   []*place{beforeRuntime},
		reason:  "as for gcWriteBarrier2",
	},
}

// isMoreStack reports whether a function is the one that makes room on a stack. A function with a frame calls it
// if there is no room, unless it is go:nosplit.
func isMoreStack(callee string) bool { return strings.HasPrefix(callee, "runtime.morestack") }

// ofRuntime reports whether a function is the runtime's own. Its system calls are plain assembly.
func ofRuntime(function string) bool {
	if strings.HasPrefix(function, "internal/runtime/syscall/linux.") {
		return false
	}
	return strings.HasPrefix(function, "runtime.") || strings.HasPrefix(function, "internal/runtime/")
}

// adviceFor says how to get rid of a call.
func adviceFor(callee string) string {
	switch {
	case isMoreStack(callee):
		return "a borrowed stack can't grow: go:nosplit"
	case strings.Contains(callee, "gcWriteBarrier"), strings.HasPrefix(callee, "runtime.wb"),
		strings.HasPrefix(callee, "runtime.typedmem"):
		return "a pointer is stored: keep it as uintptr"
	case strings.HasPrefix(callee, "runtime.newobject"), strings.HasPrefix(callee, "runtime.makeslice"),
		strings.HasPrefix(callee, "runtime.growslice"), strings.HasPrefix(callee, "runtime.conv"),
		strings.HasPrefix(callee, "runtime.mallocgc"):
		return "a value escapes to the heap: go build -gcflags=-m names it"
	}
	return "write it with system calls and memory of its own"
}

// Raw code calls nothing of the runtime, on each processor.
func TestRaw(t *testing.T) {
	used := map[int]bool{} // of allowedCalls
	for _, processor := range []string{"amd64", "arm64"} {
		t.Run(processor, func(t *testing.T) {
			p := disassemble(t, processor)
			for _, entry := range rawEntries {
				if p.functions[entry.function] == nil {
					t.Errorf("there is no function %s: %s", short(entry.function), entry.reason)
					continue
				}
				w := &walk{program: p, from: entry.function, where: entry.where, used: used}
				w.reach(t)
				w.check(t)
			}
		})
	}
	for i, a := range allowedCalls {
		if !used[i] && !t.Failed() {
			t.Errorf("no raw code calls %s as the table says: remove the row", a.callee)
		}
	}
}

// walk is over the functions that an entry reaches.
type walk struct {
	program  *program
	from     string
	where    *place
	used     map[int]bool
	caller   map[string]string // a function, and the first that calls it
	order    []string
	failures int
}

// failuresMost is how many failures of a walk are printed: a call of fmt alone has hundreds.
const failuresMost = 10

// reach finds the functions, the nearest ones first. It does not look into the runtime.
func (w *walk) reach(t *testing.T) {
	t.Helper()
	w.caller = map[string]string{w.from: ""}
	w.order = []string{w.from}
	for i := 0; i < len(w.order); i++ {
		name := w.order[i]
		for _, callee := range w.callees(name) {
			if _, known := w.caller[callee]; known || ofRuntime(callee) {
				continue
			}
			if w.program.functions[callee] == nil {
				t.Fatalf("%s calls %s, which the disassembly does not have", short(name), short(callee))
			}
			w.caller[callee] = name
			w.order = append(w.order, callee)
		}
	}
}

// callees are the functions that run on the same stack, in order.
func (w *walk) callees(name string) (all []string) {
	for _, callee := range slices.Sorted(maps.Keys(w.program.functions[name].calls)) {
		if !beginsStack(callee) {
			all = append(all, callee)
		}
	}
	return all
}

// beginsStack reports whether a function is an entry with a stack of its own.
func beginsStack(function string) bool {
	for _, entry := range rawEntries {
		if entry.function == function {
			return entry.where.stack != 0
		}
	}
	return false
}

// check fails for all that the functions must not do.
func (w *walk) check(t *testing.T) {
	t.Helper()
	for _, name := range w.order {
		f := w.program.functions[name]
		for _, callee := range w.callees(name) {
			if ofRuntime(callee) && !w.allows(name, callee) {
				w.report(t, name, "calls "+callee, adviceFor(callee))
			}
		}
		if f.frame <= emptyFrame && slices.ContainsFunc(w.callees(name), isMoreStack) {
			t.Errorf("%s has a frame that the disassembly does not show: its size is unknown", short(name))
		}
		for _, instruction := range f.indirect {
			const advice = "name the function, or add to the table what it can be"
			w.report(t, name, "calls a value ("+instruction+")", advice)
		}
		if !w.where.noVariables {
			continue
		}
		for _, variable := range slices.Sorted(maps.Keys(f.variables)) {
			const advice = "this process has no copy of writable memory: a constant, or a field"
			w.report(t, name, "uses "+variable, advice)
		}
	}
	if more := w.failures - failuresMost; more > 0 {
		t.Errorf("%s: %d more like these", short(w.from), more)
		return
	}
	if w.where.stack == 0 {
		return
	}
	deepest := w.depth(t, w.from, nil, map[string]chain{})
	if deepest.size > w.where.stack {
		t.Errorf("%s needs %d bytes of stack, and has %d:\n\t%s", short(w.from), deepest.size, w.where.stack,
			shortPath(deepest.path))
	}
	t.Logf("%s: %d functions, at most %d bytes of stack", short(w.from), len(w.order), deepest.size)
}

// allows reports whether a call of the runtime is allowed.
func (w *walk) allows(caller, callee string) bool {
	if isMoreStack(callee) {
		return w.where.stack != 0 // depth proves that it is not reached
	}
	for i, a := range allowedCalls {
		if a.callee != callee || !slices.Contains(a.where, w.where) {
			continue
		}
		if a.callers == nil || slices.Contains(a.callers, caller) {
			w.used[i] = true
			return true
		}
	}
	return false
}

// report is a failure with the chain of callers.
func (w *walk) report(t *testing.T, function, deed, advice string) {
	t.Helper()
	var path []string
	for name := function; name != ""; name = w.caller[name] {
		path = append([]string{name}, path...)
	}
	w.failures++
	if w.failures > failuresMost {
		return
	}
	t.Errorf("%s, %s %s\n\tbut %s\n\t%s\n\t%s",
		w.where.name, short(function), short(deed), w.where.reason, advice, shortPath(path))
}

// chain is a sequence of calls, and the stack that it takes.
type chain struct {
	size int
	path []string
}

// depth finds the chain below a function that needs most stack. The functions of the runtime that are allowed
// have no frame worth counting.
func (w *walk) depth(t *testing.T, name string, above []string, known map[string]chain) chain {
	t.Helper()
	if found, ok := known[name]; ok {
		return found
	}
	if slices.Contains(above, name) {
		t.Errorf("%s, functions call each other without an end that is known; the stack is %d bytes:\n\t%s",
			w.where.name, w.where.stack, shortPath(append(above, name)))
		return chain{}
	}
	above = append(slices.Clone(above), name)
	deepest := chain{}
	for _, callee := range w.callees(name) {
		if ofRuntime(callee) {
			continue
		}
		if below := w.depth(t, callee, above, known); below.size > deepest.size {
			deepest = below
		}
	}
	deepest = chain{
		size: deepest.size + w.program.functions[name].frame,
		path: append([]string{name}, deepest.path...),
	}
	known[name] = deepest
	return deepest
}

// short leaves out what all names of the product have in common.
func short(text string) string { return strings.ReplaceAll(text, module, "") }

func shortPath(path []string) string { return short(strings.Join(path, " → ")) }
