// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"bufio"
	"bytes"
	"debug/elf"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// program has the facts about the runner's machine code that TestRaw checks.
type program struct {
	functions map[string]*function
	symbols   map[string]uint64
	writable  [2]uint64 // memory, from and to
	large     int       // the last constant in R27 (arm64), which may be the size of a frame
}

// function has no suffix .abi0 in its name: a function and its wrapper for assembly are one here, with a frame as
// large as both.
type function struct {
	calls     map[string]bool
	indirect  []string        // instructions
	variables map[string]bool // that are writable
	frame     int             // in bytes, with the return address
}

// instruction is a line of go tool objdump.
type instruction struct {
	in      string // function, as objdump calls it
	address uint64
	size    uint64
	text    string
}

// disassemble builds the runner and reads its code. Further flags of a release change no code: -trimpath, the
// version, no symbols. Without -trimpath other tests have compiled most packages already.
func disassemble(t *testing.T, processor string) *program {
	t.Helper()
	file := filepath.Join(t.TempDir(), "runner")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", file, "../../"+runner)
	build.Env = append(build.Environ(), "GOOS=linux", "GOARCH="+processor, "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the runner: %v\n%s", err, out)
	}
	p := &program{functions: map[string]*function{}, symbols: map[string]uint64{}}
	p.readSymbols(t, file)
	text, err := exec.Command("go", "tool", "objdump", file).Output()
	if err != nil {
		t.Fatalf("disassemble the runner: %v", err)
	}
	p.readCode(t, text, processor)
	return p
}

func (p *program) readSymbols(t *testing.T, file string) {
	t.Helper()
	f, err := elf.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range symbols {
		p.symbols[s.Name] = s.Value
	}
	for _, segment := range f.Progs {
		if segment.Type == elf.PT_LOAD && segment.Flags&elf.PF_W != 0 {
			p.writable = [2]uint64{segment.Vaddr, segment.Vaddr + segment.Memsz}
		}
	}
	if p.writable[0] == 0 || p.writable[0]%4096 != 0 {
		t.Fatalf("writable memory begins at %#x, and not with a page: see addPage", p.writable[0])
	}
}

// readCode reads lines like these, whose columns are separated by tabs:
//
//	TEXT main.begin(SB) github.com/mcpscope/mcpscope/cmd/mcpscope/early.go
//	  early.go:29  0x5f4e80  4883ec18  SUBQ $0x18, SP
func (p *program) readCode(t *testing.T, text []byte, processor string) {
	t.Helper()
	var f *function
	title := ""
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		line := lines.Text()
		if rest, ok := strings.CutPrefix(line, "TEXT "); ok {
			title, _, _ = strings.Cut(rest, "(SB) ")
			f = p.begin(title)
			continue
		}
		columns := strings.FieldsFunc(line, func(r rune) bool { return r == '\t' })
		if len(columns) != 4 { // an empty line
			continue
		}
		address, err := strconv.ParseUint(columns[1], 0, 64)
		if err != nil {
			t.Fatalf("go tool objdump has another format: %q", line)
		}
		i := instruction{title, address, uint64(len(columns[2]) / 2), columns[3]}
		f.addCall(i)
		switch processor {
		case "amd64":
			f.addFrameAMD64(i)
			p.addOperand(t, f, i)
		case "arm64":
			p.addFrameARM64(f, i)
			p.addPage(f, i)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	if f := p.functions["main.withOwnVariables"]; f == nil || len(f.variables) == 0 {
		t.Fatal("go tool objdump has another format: main.withOwnVariables uses the variable main.vectors")
	}
}

// emptyFrame is the return address, which amd64 pushes. It is also more than arm64 needs.
const emptyFrame = 8

// begin returns the function with a title.
func (p *program) begin(title string) *function {
	name := withoutABI(title)
	f := p.functions[name]
	if f == nil {
		f = &function{calls: map[string]bool{}, variables: map[string]bool{}}
		p.functions[name] = f
	}
	f.frame += emptyFrame
	return f
}

func withoutABI(title string) string { return strings.TrimSuffix(title, ".abi0") }

// addCall adds the target of a call, or of a jump to another function. A jump without a name is within the
// function, perhaps by a table of a switch.
func (f *function) addCall(i instruction) {
	operation, operand, _ := strings.Cut(i.text, " ")
	if operation != "CALL" && operation != "JMP" {
		return
	}
	callee, named := strings.CutSuffix(operand, "(SB)")
	callee = offset.ReplaceAllString(callee, "")
	switch {
	case !named && operation == "CALL":
		f.indirect = append(f.indirect, i.text)
	case !named:
	case withoutABI(callee) == withoutABI(i.in) && (callee != i.in || operation == "JMP"):
		// A wrapper calls what it wraps, or a function begins again with a larger stack.
	default:
		f.calls[withoutABI(callee)] = true
	}
}

// addVariable adds a variable if it is in writable memory.
func (p *program) addVariable(f *function, address uint64, name string) {
	if address >= p.writable[0] && address < p.writable[1] {
		f.variables[name] = true
	}
}

var (
	// behind a symbol
	offset = regexp.MustCompile(`\+\d+$`)
	// an address that has no symbol, relative to the next instruction
	addressOperand = regexp.MustCompile(`(-?0x[0-9a-f]+)\(IP\)`)
	pushed         = regexp.MustCompile(`^PUSHQ `)
	subtracted     = regexp.MustCompile(`^SUBQ \$(0x[0-9a-f]+), SP$`)
	added          = regexp.MustCompile(`^ADDQ \$-(0x[0-9a-f]+), SP$`)
)

// addOperand adds a variable that an instruction of amd64 uses.
func (p *program) addOperand(t *testing.T, f *function, i instruction) {
	t.Helper()
	if strings.HasPrefix(i.text, "CALL ") || strings.HasPrefix(i.text, "JMP ") {
		return
	}
	if before, _, found := strings.Cut(i.text, "(SB)"); found {
		name := p.symbolAtEnd(before)
		if name == "" { // It counts as a variable: a person has to decide.
			f.variables["an unknown symbol ("+i.text+")"] = true
		}
		p.addVariable(f, p.symbols[name], name)
	}
	if found := addressOperand.FindStringSubmatch(i.text); found != nil {
		distance, err := strconv.ParseInt(found[1], 0, 64)
		if err != nil {
			t.Fatal(err)
		}
		p.addVariable(f, i.address+i.size+uint64(distance), "a variable without a name ("+i.text+")")
	}
}

// symbolAtEnd returns the symbol that ends a text, or "". Some names have spaces and commas. A
// constant has a dollar sign, and counts as an address if there is a symbol at that.
func (p *program) symbolAtEnd(text string) string {
	text = offset.ReplaceAllString(text, "")
	for text != "" {
		if _, known := p.symbols[text]; known {
			return text
		}
		next := strings.IndexAny(text, " ,$")
		if next < 0 {
			break
		}
		text = text[next+1:]
	}
	return ""
}

// addFrameAMD64 adds what an instruction takes from the stack.
func (f *function) addFrameAMD64(i instruction) {
	if pushed.MatchString(i.text) {
		f.frame += 8
	}
	for _, pattern := range []*regexp.Regexp{subtracted, added} {
		if found := pattern.FindStringSubmatch(i.text); found != nil {
			f.frame += number(found[1])
		}
	}
}

var (
	pageOperand = regexp.MustCompile(`^ADRP (-?\d+)\(PC\)`)
	stored      = regexp.MustCompile(`^MOVD\.W R30, -(\d+)\(RSP\)$`)
	// R20 is the new stack pointer until the frame is complete. Comparisons with the stack guard use R17.
	subtractedARM64 = regexp.MustCompile(`^SUB \$(\d+|\(\d+<<\d+\)), RSP, (?:RSP|R20)$`)
	largeConstant   = regexp.MustCompile(`^(?:MOVD|ORR) \$(\d+)(?:, ZR)?, R27$`)
)

const subtractedLarge = "SUB R27, RSP, R20"

// addPage adds a variable that an instruction of arm64 uses. ADRP has the page of an address, and the
// instructions behind it have the rest. Writable memory begins with a page.
func (p *program) addPage(f *function, i instruction) {
	if found := pageOperand.FindStringSubmatch(i.text); found != nil {
		page := i.address&^4095 + uint64(number(found[1]))
		p.addVariable(f, page, "a variable ("+i.text+")")
	}
}

// addFrameARM64 adds what an instruction takes from the stack.
func (p *program) addFrameARM64(f *function, i instruction) {
	for _, pattern := range []*regexp.Regexp{stored, subtractedARM64} {
		if found := pattern.FindStringSubmatch(i.text); found != nil {
			f.frame += number(found[1])
		}
	}
	if found := largeConstant.FindStringSubmatch(i.text); found != nil {
		p.large = number(found[1])
	}
	if i.text == subtractedLarge {
		f.frame += p.large
	}
}

// number reads a constant of objdump: 16, -16, 0x10 or (1<<4).
func number(text string) int {
	text = strings.Trim(text, "()")
	text, shift, _ := strings.Cut(text, "<<")
	n, err := strconv.ParseInt(text, 0, 64)
	if err != nil {
		panic(err) // no pattern has anything else
	}
	if shift != "" {
		n <<= number(shift)
	}
	return int(n)
}
