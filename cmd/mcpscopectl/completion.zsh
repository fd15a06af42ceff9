
# The words behind the command of a server are that command's own.
_mcpscope() {
    local at
    if [[ $words[2] == (run|gateway) ]] && (( CURRENT > 2 )); then
        at=$(${(Q)~words[1]} __command "${(@Q)words[2,CURRENT]}" 2>/dev/null)
        if [[ -n $at ]]; then
            shift $at words
            (( CURRENT -= at ))
            _normal
            return
        fi
    fi
    __mcpscope_cobra "$@"
}

# as a file in fpath this is run, and not sourced, the first time
if [[ "$funcstack[1]" == _mcpscope ]]; then
    _mcpscope "$@"
else
    compdef _mcpscope mcpscope mcpscopectl
fi
