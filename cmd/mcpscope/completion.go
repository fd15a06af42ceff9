//go:build linux

package main

import (
	"flag"
	"fmt"
	"sort"
	"strings"

	"github.com/mcpscope/mcpscope/scope"
)

const completionUsage = `Usage: mcpscope completion bash|zsh|fish

Prints a completion script. For this shell alone:

  bash:  source <(mcpscope completion bash)
  zsh:   source <(mcpscope completion zsh)
  fish:  mcpscope completion fish | source
`

func completionCommand(args []string, io stdio) int {
	if len(args) == 1 {
		switch args[0] {
		case "bash":
			fmt.Fprint(io.out, bashCompletion())
			return exitOK
		case "zsh":
			fmt.Fprint(io.out, zshCompletion())
			return exitOK
		case "fish":
			fmt.Fprint(io.out, fishCompletion())
			return exitOK
		}
		if isHelp(args[0]) {
			fmt.Fprint(io.out, completionUsage)
			return exitOK
		}
		fmt.Fprintf(io.err, "mcpscope: completion: no script for %q\nmcpscope: hint: mcpscope completion bash|zsh|fish\n", args[0])
		return exitUsage
	}
	fmt.Fprint(io.err, "mcpscope: completion: which shell?\nmcpscope: hint: mcpscope completion bash|zsh|fish\n")
	return exitUsage
}

func commandNames() []string {
	var names []string
	for _, c := range commands() {
		if !c.hidden {
			names = append(names, c.name)
		}
	}
	return names
}

func runFlagNames() []string {
	var f runFlags
	var names []string
	f.set().VisitAll(func(fl *flag.Flag) { names = append(names, dashes(fl.Name)) })
	sort.Strings(names)
	return names
}

// choices are the flags with a fixed set of values.
func choices() map[string]string {
	var backends []string
	for _, b := range scope.Backends {
		backends = append(backends, string(b))
	}
	return map[string]string{
		"--backend": strings.Join(backends, " "), "--on-client-death": "stop ignore",
		"--eof-grace": "0 500ms 1.2s 5s infinity", "--term-grace": "0 500ms 1s 5s infinity",
	}
}

// bashCompletion leaves everything from the server's command on to bash's own
// completion of commands.
func bashCompletion() string {
	var cases strings.Builder
	for _, flag := range runFlagNames() {
		if values := choices()[flag]; values != "" {
			fmt.Fprintf(&cases, "    %s) COMPREPLY=($(compgen -W %q -- \"$cur\")); return ;;\n", flag, values)
		}
	}
	return fmt.Sprintf(`# bash completion for mcpscope
_mcpscope() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} i
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then COMPREPLY=($(compgen -W %q -- "$cur")); return; fi
  case ${COMP_WORDS[1]} in
    help) COMPREPLY=($(compgen -W %q -- "$cur")); return ;;
    completion) COMPREPLY=($(compgen -W "bash zsh fish" -- "$cur")); return ;;
    run) ;;
    *) return ;;
  esac
  for ((i = 2; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
      --) i=$((i + 1)); break ;;
      -q|-v) ;;
      -*) i=$((i + 1)) ;;
      *) break ;;
    esac
  done
  if [ "$i" -lt "$COMP_CWORD" ] || [ "$prev" = -- ]; then
    if declare -F _command_offset >/dev/null; then _command_offset "$i"; else COMPREPLY=($(compgen -cf -- "$cur")); fi
    return
  fi
  case $prev in
%s    --report) COMPREPLY=($(compgen -f -- "$cur")); return ;;
    --name) return ;;
  esac
  case $cur in
    -*) COMPREPLY=($(compgen -W %q -- "$cur")) ;;
    *) COMPREPLY=($(compgen -c -- "$cur")) ;;
  esac
}
complete -F _mcpscope mcpscope
`, strings.Join(commandNames(), " "), strings.Join(commandNames(), " "), cases.String(), strings.Join(append(runFlagNames(), "--help"), " "))
}

func zshCompletion() string {
	var flags strings.Builder
	for _, flag := range runFlagNames() {
		switch values := choices()[flag]; {
		case values != "":
			fmt.Fprintf(&flags, "        '%s[]:value:(%s)' \\\n", flag, values)
		case flag == "--report":
			fmt.Fprintf(&flags, "        '%s[]:file:_files' \\\n", flag)
		case flag == "--name":
			fmt.Fprintf(&flags, "        '%s[]:name:' \\\n", flag)
		default:
			fmt.Fprintf(&flags, "        '%s[]' \\\n", flag)
		}
	}
	return fmt.Sprintf(`#compdef mcpscope
_mcpscope() {
  local -a commands
  commands=(%s)
  if (( CURRENT == 2 )); then compadd -a commands; return; fi
  case $words[2] in
    help) compadd -a commands ;;
    completion) compadd bash zsh fish ;;
    run)
      shift words; (( CURRENT-- ))
      _arguments -S -A '-*' \
%s        '(-)1:command:_command_names -e' '*::arguments:_normal' ;;
  esac
}
compdef _mcpscope mcpscope
`, strings.Join(commandNames(), " "), flags.String())
}

func fishCompletion() string {
	var b strings.Builder
	b.WriteString("# fish completion for mcpscope\ncomplete -c mcpscope -f\n")
	for _, c := range commands() {
		if !c.hidden {
			fmt.Fprintf(&b, "complete -c mcpscope -n __fish_use_subcommand -a %s -d %q\n", c.name, c.summary)
		}
	}
	fmt.Fprintf(&b, "complete -c mcpscope -n '__fish_seen_subcommand_from help' -a %q\n", strings.Join(commandNames(), " "))
	b.WriteString("complete -c mcpscope -n '__fish_seen_subcommand_from completion' -a 'bash zsh fish'\n")
	for _, flag := range runFlagNames() {
		option := "-l " + strings.TrimLeft(flag, "-")
		if len(flag) == 2 {
			option = "-s " + strings.TrimLeft(flag, "-")
		}
		switch values := choices()[flag]; {
		case values != "":
			option += fmt.Sprintf(" -x -a %q", values)
		case flag == "--report":
			option += " -r -F"
		case flag == "--name":
			option += " -x"
		}
		fmt.Fprintf(&b, "complete -c mcpscope -n '__fish_seen_subcommand_from run' %s\n", option)
	}
	b.WriteString("complete -c mcpscope -n '__fish_seen_subcommand_from run' -a '(__fish_complete_subcommand --fcs-skip=2)'\n")
	return b.String()
}
