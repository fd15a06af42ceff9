
# The words behind the command of a server are that command's own.
if ! declare -F _get_comp_words_by_ref >/dev/null; then
    # without the package bash-completion: words with "=" or ":" in them are not put together
    __mcpscope_init_completion() {
        COMPREPLY=()
        words=("${COMP_WORDS[@]}") cword=$COMP_CWORD
        cur=${words[cword]} prev=${words[cword-1]}
    }
fi

__mcpscope_complete() {
    local cur prev words cword at n=0 i word
    __mcpscope_init_completion -n =: || return
    if [[ ${words[1]-} == run || ${words[1]-} == gateway ]]; then
        at=$("${words[0]/#\~/$HOME}" __command "${words[@]:1:cword}" 2>/dev/null)
        if [[ -n $at ]]; then
            for ((i = 0; i < at; i++)); do # bash's own words are shorter
                word=
                while [[ $word != "${words[i]}" && n -lt COMP_CWORD ]]; do word+=${COMP_WORDS[n++]}; done
            done
            if declare -F _command_offset >/dev/null; then
                _command_offset "$n"
            else
                COMPREPLY=($(compgen -cf -- "$cur"))
            fi
            return
        fi
    fi
    __start_mcpscope "$@"
}

complete -o default -F __mcpscope_complete mcpscope mcpscopectl
