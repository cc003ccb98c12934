# table.awk - brings Markdown tables into columns and sets thousands apart, so that they can be read
# as they are; other lines pass as they are. The second line of a table says which columns are
# aligned to the right.

function grouped(text,   parts, n, whole, out)
{
    if (text !~ /^[0-9]+(\.[0-9]+)?$/)
        return text
    n = split(text, parts, ".")
    whole = parts[1]
    for (out = ""; length(whole) > 3; whole = substr(whole, 1, length(whole) - 3))
        out = "," substr(whole, length(whole) - 2) out
    return whole out (n > 1 ? "." parts[2] : "")
}

function flush(   r, c, n, cells, cell, width, right, line, gap)
{
    for (r = 1; r <= rows; r++) {
        n = split(row[r], cells, "|")
        for (c = 2; c < n; c++) {
            gsub(/^ +| +$/, "", cells[c])
            if (r == 2)
                right[c] = cells[c] ~ /:$/
            cell[r, c] = r == 2 ? "" : grouped(cells[c])
            if (length(cell[r, c]) > width[c])
                width[c] = length(cell[r, c])
        }
    }
    for (r = 1; r <= rows; r++) {
        n = split(row[r], cells, "|")
        line = "|"
        for (c = 2; c < n; c++) {
            gap = sprintf("%" (width[c] - length(cell[r, c])) "s", "")
            if (r == 2) {
                gap = sprintf("%" (width[c] + 1) "s", "")
                gsub(/ /, "-", gap)
                line = line gap (right[c] ? ":" : "-") "|"
            } else {
                line = line " " (right[c] ? gap cell[r, c] : cell[r, c] gap) " |"
            }
        }
        print line
    }
    rows = 0
}

/^\|/ {
    row[++rows] = $0
    next
}

{
    flush()
    print
}

END {
    flush()
}
