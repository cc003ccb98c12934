# nets.awk - makes C of .net files: their text, line by line, in the array that
# src/model/net/net.h declares.
BEGIN {
    print "/* Made from models/ by the Makefile. */\n#include \"model/net/net.h\"\n"
    print "const struct yk_net_file yk_net_files[] = {"
}
FNR == 1 {
    name = FILENAME
    sub(/.*\//, "", name)
    sub(/\.net$/, "", name)
    printf "%s    {\"%s\",\n", NR == 1 ? "" : "    },\n", name
}
{
    gsub(/\\/, "&&")
    gsub(/"/, "\\\"")
    printf "     \"%s\\n\"\n", $0
}
END { print "    },\n    {0},\n};" }
