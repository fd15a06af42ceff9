
# The words behind the command of a server are that command's own.
function __mcpscope_at_command
    set -l words (commandline -opc)
    contains -- "$words[2]" run gateway; or return 1
    set -l at ($words[1] __command $words[2..-1] (commandline -ct) 2>/dev/null)
    test -n "$at"; or return 1
    set -g __mcpscope_at (math $at + 1)
end

function __mcpscope_of_command
    set -l words (commandline -opc) 
    set -l rest
    if test (count $words) -ge $__mcpscope_at
        set rest (string escape -- $words[$__mcpscope_at..-1])
    end
    complete -C (string join -- ' ' $rest (commandline -ct))
end

for program in mcpscope mcpscopectl
    # cobra's condition, but not behind the command of a server
    complete -c $program -e
    complete -c $program -n 'not __mcpscope_at_command; and __mcpscope_clear_perform_completion_once_result'
    complete -c $program -n 'not __mcpscope_at_command; and not __mcpscope_requires_order_preservation; and __mcpscope_prepare_completions' -f -a '$__mcpscope_comp_results'
    complete -k -c $program -n 'not __mcpscope_at_command; and __mcpscope_requires_order_preservation; and __mcpscope_prepare_completions' -f -a '$__mcpscope_comp_results'
    complete -c $program -n __mcpscope_at_command -f -a '(__mcpscope_of_command)'
end
