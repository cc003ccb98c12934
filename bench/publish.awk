# publish.awk - a README with its benchmark blocks as they are in bench/results; see publish.sh.

BEGIN {
    sets = split("avx512 avx2 plain", set, " ")
}

# The table that was collected, without the rows that are not wanted; nothing of it, if that is all
# of them.
function put_table(rows,   i, cells, wanted, any)
{
    for (i = 3; i <= lines; i++) {
        split(line[i], cells, "|")
        gsub(/^ +| +$/, "", cells[2])
        wanted[i] = rows == "" || cells[2] ~ "^(" rows ")$"
        any = any || wanted[i]
    }
    for (i = 1; any && i <= lines; i++)
        if (i < 3 || wanted[i])
            print line[i]
    lines = 0
}

# Prints a file of results; was there one?
function put(file, rows,   text, found)
{
    while ((getline text <file) > 0) {
        if (!found)
            print ""
        found = 1
        if (text ~ /^\|/) {
            line[++lines] = text
        } else {
            put_table(rows)
            print text
        }
    }
    put_table(rows)
    close(file)
    if (found)
        print ""
    return found
}

function fill(name, rows,   i, found)
{
    if (name ~ /\./)
        return put("bench/results/" name ".md", rows)
    for (i = 1; i <= sets; i++)
        found += put("bench/results/" name "." set[i] ".md", rows)
    return found
}

/^<!-- bench:[^ ]+( rows:.*)? -->$/ {
    print
    name = $0
    sub(/^<!-- bench:/, "", name)
    sub(/ .*/, "", name)
    rows = $0
    if (!sub(/^.* rows:/, "", rows))
        rows = ""
    sub(/ -->$/, "", rows)
    filled = fill(name, rows)
    if (!filled)
        print "publish: no result of '" name "'; the text stays as it is" >"/dev/stderr"
    next
}

/^<!-- \/bench -->$/ {
    filled = 0
}

!filled
