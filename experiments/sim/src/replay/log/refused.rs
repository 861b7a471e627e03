//! Formats that are known and not read, with the command that converts them. `FILE` stands for the path.

/// Format that is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::replay) struct RefusedFormat {
    pub(in crate::replay) name: &'static str,
    /// Command that converts the file.
    pub(in crate::replay) remedy: &'static str,
}

/// Files by the bytes at their beginning, or for tar, at an offset.
const FILES: [(usize, &[u8], RefusedFormat); 13] = [
    (0, b"\x28\xb5\x2f\xfd", RefusedFormat { name: "zstd", remedy: "zstdcat FILE | tollgate replay -" }),
    (0, b"BZh", RefusedFormat { name: "bzip2", remedy: "bzcat FILE | tollgate replay -" }),
    (0, b"\xfd7zXZ\0", RefusedFormat { name: "xz", remedy: "xzcat FILE | tollgate replay -" }),
    (0, b"\x04\x22\x4d\x18", RefusedFormat { name: "lz4", remedy: "lz4cat FILE | tollgate replay -" }),
    (0, b"\x1f\x9d", RefusedFormat { name: "compress", remedy: "zcat FILE | tollgate replay -" }),
    (0, b"\xff\x06\0\0sNaPpY", RefusedFormat { name: "snappy", remedy: "snzip -dc FILE | tollgate replay -" }),
    (0, b"PK\x03\x04", RefusedFormat { name: "zip", remedy: "unzip -p FILE | tollgate replay -" }),
    (0, b"7z\xbc\xaf\x27\x1c", RefusedFormat { name: "7z", remedy: "7z x -so FILE | tollgate replay -" }),
    (0, b"\xff\xfe", RefusedFormat { name: "UTF-16", remedy: "iconv -f UTF-16 -t UTF-8 FILE | tollgate replay -" }),
    (0, b"\xfe\xff", RefusedFormat { name: "UTF-16", remedy: "iconv -f UTF-16 -t UTF-8 FILE | tollgate replay -" }),
    (0, b"LPKSHHRH", RefusedFormat { name: "journal", remedy: "journalctl --file FILE -o cat | tollgate replay -" }),
    (
        0,
        b"PAR1",
        RefusedFormat {
            name: "Parquet",
            remedy: "duckdb -c \"COPY (FROM 'FILE') TO '/dev/stdout' (FORMAT json)\" | tollgate replay -",
        },
    ),
    (257, b"ustar", RefusedFormat { name: "tar", remedy: "tar -xOf FILE | tollgate replay -" }),
];
/// Number of bytes at the beginning of a file that tell its format.
pub(in crate::replay) const BEGINNING_LEN: usize = 264;

/// Returns true for the lines of a format.
type IsOfFormat = fn(&str) -> bool;

/// Lines by their form.
const LINES: [(IsOfFormat, RefusedFormat); 6] = [
    (
        |line| line.starts_with("[{") || line == "[" || line.starts_with("[ {"),
        RefusedFormat { name: "an array of JSON", remedy: "jq -c '.[]' FILE | tollgate replay -" },
    ),
    (|line| line == "{", RefusedFormat { name: "JSON over several lines", remedy: "jq -c . FILE | tollgate replay -" }),
    (
        |line| line.contains("\thttp.log.access"),
        RefusedFormat {
            name: "the console format of Caddy",
            remedy: "awk -F'\\t' '{print \"{\\\"ts\\\":\\\"\" $1 \"\\\",\" substr($5,2)}' FILE | tollgate replay -",
        },
    ),
    (
        |line| {
            let mut fields = line.split_whitespace().skip(3);
            let result = fields.next().unwrap_or_default();
            ["TCP_", "UDP_", "NONE"].iter().any(|kind| result.starts_with(kind)) && result.contains('/')
        },
        RefusedFormat {
            name: "the format of Squid",
            remedy: "awk '{print \"{\\\"time\\\":\" $1 \",\\\"descriptors\\\":{\\\"ip\\\":\\\"\" $3 \"\\\"}}\"}' FILE | tollgate replay -",
        },
    ),
    (
        |line| line.split(' ').filter(|field| field.split_once('=').is_some_and(|(key, _)| is_key(key))).count() >= 3,
        RefusedFormat {
            name: "logfmt",
            remedy: "python3 -c 'import json,shlex,sys; [print(json.dumps(dict(p.split(\"=\",1) for p in shlex.split(l) if \"=\" in p))) for l in sys.stdin]' < FILE | tollgate replay - --json time=FIELD,ip=FIELD",
        },
    ),
    (
        |line| !line.contains(['[', '{']) && line.matches(',').count() >= 3,
        RefusedFormat {
            name: "CSV",
            remedy: "python3 -c 'import csv,json,sys; [print(json.dumps(r)) for r in csv.DictReader(sys.stdin)]' < FILE | tollgate replay - --json time=FIELD,ip=FIELD",
        },
    ),
];

/// Returns the format of a file by its first bytes.
pub(in crate::replay) fn of_file(beginning: &[u8]) -> Option<RefusedFormat> {
    let found = FILES.iter().find(|(at, magic, _)| beginning.get(*at..).is_some_and(|rest| rest.starts_with(magic)));
    found.map(|(_, _, format)| *format)
}

/// Returns the format of a line that no reader knows.
pub(in crate::replay) fn of_line(line: &str) -> Option<RefusedFormat> {
    LINES.iter().find(|(detects, _)| detects(line)).map(|(_, format)| *format)
}

fn is_key(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_known_by_their_files_and_lines() {
        let mut tar = vec![0; 257];
        tar.extend(b"ustar\0");
        for (beginning, expected) in [
            (&b"\x28\xb5\x2f\xfd\x04"[..], Some("zstd")),
            (b"BZh91AY", Some("bzip2")),
            (b"\xff\xfe2\0", Some("UTF-16")),
            (&tar, Some("tar")),
            (b"203.0.113.7 - - [", None),
            (b"", None),
        ] {
            assert_eq!(of_file(beginning).map(|format| format.name), expected);
        }
        for (line, expected) in [
            ("[{\"a\": 1}]", Some("an array of JSON")),
            ("{", Some("JSON over several lines")),
            (
                "2024/11/18 16:55:00.123\tINFO\thttp.log.access.log0\thandled request\t{\"a\": 1}",
                Some("the console format of Caddy"),
            ),
            (
                "1731948900.123    456 203.0.113.7 TCP_MISS/200 512 GET http://x/ - HIER_DIRECT/1 text/html",
                Some("the format of Squid"),
            ),
            ("time=\"2024-11-18T16:55:00Z\" level=info ip=203.0.113.7 msg=x", Some("logfmt")),
            ("time,ip,method,path", Some("CSV")),
            ("nonsense", None),
        ] {
            assert_eq!(of_line(line).map(|format| format.name), expected, "{line}");
        }
    }
}
