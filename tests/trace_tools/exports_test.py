#!/usr/bin/env python3
"""Exports of a hostile trace, read by consumers that share no code with shunt: Python's json, csv and sqlite3, protoc, and
headless Chromium for the report. Usage: exports_test.py --build DIR"""
import argparse
import csv
import json
import os
import re
import shutil
import sqlite3
import subprocess
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = ""
COUNT = 4000


def tool(*arguments, check=True):
    done = subprocess.run([os.path.join(BUILD, "bin/shunt"), "trace", *arguments], capture_output=True)
    if check and done.returncode != 0:
        raise AssertionError(f"shunt trace {arguments}: {done.returncode} {done.stderr.decode(errors='replace')}")
    return done


class Exports(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.run_dir = os.path.join(cls.folder, "run.shunt")
        subprocess.run([os.path.join(BUILD, "tests/make_trace"), cls.run_dir, str(COUNT), "hostile", "gpu"], check=True, stdout=subprocess.DEVNULL)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def export(self, form):
        path = os.path.join(self.folder, "out." + form)
        tool("export", self.run_dir, "--format", form, "-o", path, "--force")
        return path

    def test_chrome_is_strict_json_with_kinetos_fields(self):
        def refuse(constant):
            raise AssertionError(constant)
        with open(self.export("chrome"), encoding="utf-8") as f:
            trace = json.load(f, parse_constant=refuse)
        self.assertEqual(trace["schemaVersion"], 1)
        events = trace["traceEvents"]
        decisions = [e for e in events if e.get("cat") == "user_annotation" and e["ph"] in "XB"]
        self.assertEqual(len(decisions), COUNT)
        kernels = [e for e in events if e.get("cat") == "kernel"]
        self.assertTrue(kernels)
        for k in kernels:
            self.assertGreaterEqual(k["dur"], 0)
            self.assertEqual(k["pid"], k["args"]["device"])
            self.assertEqual(k["tid"], k["args"]["stream"])
        self.assertTrue(any('"x\\y"' in k["name"] and "\n" in k["name"] for k in kernels))
        starts = {e["id"] for e in events if e["ph"] == "s"}
        ends = {e["id"] for e in events if e["ph"] == "f"}
        self.assertTrue(ends <= starts and ends)
        for e in events:
            if e["ph"] != "M":
                self.assertLess(e["ts"], 1e9)   # relative to the base

    def test_csv_has_a_row_a_record(self):
        with open(self.export("csv"), newline="", encoding="utf-8", errors="replace") as f:
            rows = list(csv.DictReader(f))
        self.assertEqual(sum(r["kind"] in ("decision", "decision_end") for r in rows), COUNT)
        self.assertTrue(all(None not in r and None not in r.values() for r in rows))
        self.assertEqual(sum(r["kind"] == "call" for r in rows), COUNT // 100)

    def test_sqlite_answers_queries_written_for_nsys(self):
        db = sqlite3.connect(self.export("sqlite"))
        db.text_factory = bytes
        kernels = db.execute("""SELECT s.value, COUNT(*), SUM(k.end - k.start) FROM CUPTI_ACTIVITY_KIND_KERNEL k
                                JOIN StringIds s ON s.id = k.demangledName GROUP BY 1""").fetchall()
        self.assertEqual(len(kernels), 1)
        self.assertGreater(kernels[0][2], 0)
        ranges = db.execute("SELECT COUNT(*) FROM NVTX_EVENTS WHERE uint64Value IS NOT NULL").fetchone()[0]
        self.assertEqual(ranges, COUNT)
        calls = db.execute("""SELECT s.value, COUNT(*) FROM CUPTI_ACTIVITY_KIND_RUNTIME r JOIN StringIds s ON s.id = r.nameId GROUP BY 1""").fetchall()
        self.assertEqual(calls, [(b"cuLaunchKernel", COUNT // 100)])
        pid = db.execute("SELECT pid, globalPid FROM PROCESSES").fetchone()
        self.assertEqual((pid[1] >> 24) & 0xFFFFFF, pid[0])
        orphans = db.execute("""SELECT COUNT(*) FROM CUPTI_ACTIVITY_KIND_KERNEL k LEFT JOIN SHUNT_DECISIONS d ON d.decisionId = k.shuntDecision
                                WHERE k.shuntDecision IS NOT NULL AND d.decisionId IS NULL""").fetchone()[0]
        self.assertEqual(orphans, 0)

    def test_perfetto_decodes_and_nests(self):
        path = self.export("perfetto")
        if not shutil.which("protoc"):
            self.skipTest("protoc is not installed (protobuf-compiler)")
        with open(path, "rb") as f:
            text = subprocess.run(["protoc", "--decode=Trace", "-I", HERE, "perfetto.proto"], stdin=f, capture_output=True, check=True).stdout.decode("utf-8", errors="replace")
        self.assertNotRegex(text, r"(?m)^\s*\d+: ")   # no field the schema does not know
        declared, depth, started, flows, ends, last = set(), {}, 0, set(), set(), {}
        for packet in text.split("\npacket {")[0:]:
            uuid = re.search(r"track_descriptor \{\s*uuid: (\d+)", packet)
            if uuid:
                declared.add(uuid.group(1))
            event = re.search(r"track_event \{(.*)", packet, re.S)
            if not event:
                continue
            track = re.search(r"track_uuid: (\d+)", event.group(1)).group(1)
            self.assertIn(track, declared)
            kind = re.search(r"\btype: (\w+)", event.group(1)).group(1)
            flows.update(re.findall(r"(?<!terminating_)flow_ids: (\d+)", event.group(1)))
            ends.update(re.findall(r"terminating_flow_ids: (\d+)", event.group(1)))
            if kind == "TYPE_SLICE_BEGIN":
                depth[track] = depth.get(track, 0) + 1
                started += 1
                self.assertLessEqual(depth[track], 1)   # device lanes never overlap, decisions here do not nest
            elif kind == "TYPE_SLICE_END":
                depth[track] = depth.get(track, 0) - 1
                self.assertGreaterEqual(depth[track], 0)
        self.assertTrue(started and all(d == 0 for d in depth.values()))
        self.assertTrue(ends and ends <= flows)
        self.assertIn("primary_trace_clock: 3", text)

    def test_summary_and_diff(self):
        summary = json.loads(tool("summary", self.run_dir, "--json").stdout)
        self.assertEqual(sum(f["decisions"] for f in summary["features"].values()), COUNT)
        self.assertEqual(summary["losses"]["dropped"], 0)
        self.assertEqual(summary["gpu"]["lost_stamps"], COUNT // 50)
        self.assertLessEqual(len(tool("summary", self.run_dir).stdout.splitlines()), 8)
        self.assertEqual(tool("diff", self.run_dir, self.run_dir).returncode, 0)
        other = os.path.join(self.folder, "other.shunt")
        subprocess.run([os.path.join(BUILD, "tests/make_trace"), other, str(COUNT * 2)], check=True, stdout=subprocess.DEVNULL)
        self.assertEqual(tool("diff", self.run_dir, other, check=False).returncode, 1)

    def test_correlate_with_its_own_export(self):
        found = json.loads(tool("correlate", self.run_dir, "--nsys", self.export("sqlite"), "--json").stdout)
        self.assertGreater(found["matched"]["external-id"], 0)
        self.assertEqual(found["decisions"], sum(found["matched"].values()) + sum(found["unmatched"].values()))

    def test_correlate_nsys_joins_by_process_and_correlation(self):
        """Two processes that share correlation ids: only the pair with the process may join."""
        path = os.path.join(self.folder, "nsys.sqlite")
        if os.path.exists(path):
            os.unlink(path)
        pid = json.loads(tool("summary", self.run_dir, "--json").stdout)["processes"][0]["pid"]
        with open(self.export("csv"), newline="", encoding="utf-8", errors="replace") as f:
            wanted = [r for r in csv.DictReader(f) if r["kind"] == "decision" and r["outcome"] == "applied" and r["correlation"] == "0"][:2]
        db = sqlite3.connect(path)
        db.executescript("""CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(start,end,eventClass,globalTid,correlationId,nameId,returnValue);
            CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start,end,deviceId,contextId,streamId,correlationId,globalPid);
            CREATE TABLE NVTX_EVENTS(start,end,eventType,globalTid,domainId,uint64Value,text);""")
        mine, other = (1 << 48) | (pid << 24), (1 << 48) | ((pid + 1) << 24)
        for i, row in enumerate(wanted):
            t = 1000 * (i + 1)
            db.execute("INSERT INTO NVTX_EVENTS VALUES(?,?,59,?,1,?,'')", (t, t + 100, mine | 5, int(row["id"])))
            db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES(?,?,1,?,?,1,0)", (t + 10, t + 20, mine | 5, 40 + i))
            db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES(?,?,0,1,7,?,?)", (t + 50, t + 60, 40 + i, mine if i == 0 else other))
        db.commit()
        db.close()
        found = json.loads(tool("correlate", self.run_dir, "--nsys", path, "--json").stdout)
        self.assertEqual(found["matched"].get("nvtx-range"), 1)
        self.assertEqual(found["unmatched"]["API rows in the range started no recorded device work"], 1)
        self.assertIn("CUPTI_ACTIVITY_KIND_MEMCPY", found["note"])

    def test_correlate_says_what_is_wrong_with_the_file(self):
        done = tool("correlate", self.run_dir, "--nsys", os.path.join(HERE, "perfetto.proto"), check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(b"is no SQLite database", done.stderr)

    def test_report_opens_in_chromium_without_a_complaint(self):
        path = os.path.join(self.folder, "report.html")
        tool("report", self.run_dir, "-o", path, "--force")
        with open(path, encoding="utf-8") as f:
            html = f.read()
        self.assertLess(len(html), 10 << 20)
        self.assertNotIn("<script", html)
        self.assertNotRegex(html, r'(src|href)="?https?:')
        for section in ("decisions", "streams", "memory", "graphs", "reasons", "run"):
            self.assertIn(f"id='{section}'", html)
        # Each chart says what it shows, and has its table.
        charts = re.findall(r"<svg [^>]*role='img' aria-label='([^']+)'", html)
        self.assertGreaterEqual(len(charts), 4)
        self.assertGreaterEqual(html.count("<table"), len(charts))
        self.assertGreaterEqual(html.count("tabindex='0'"), 6)
        self.assertNotRegex(html, r"fill='#")   # colours come by theme, patterns beside them
        summary = json.loads(tool("summary", self.run_dir, "--json").stdout)
        streams = re.search(r"<h2 id='streams'>.*?</table>", html, re.S).group(0)
        rows = [re.findall(r"<td[^>]*>([^<]*)</td>", r) for r in re.findall(r"<tr><td>.*?</tr>", streams, re.S)]
        self.assertEqual(sum(int(r[2].replace(",", "")) for r in rows), sum(summary["gpu"][k] for k in ("kernels", "copies", "sets", "graphs")) - summary["gpu"]["lost_stamps"])
        self.assertRegex(streams, r"GPU 0 worked [\d.]+ ms .* on two or more streams at once")
        browser = shutil.which("chromium") or shutil.which("chromium-browser")
        if not browser:
            self.skipTest("chromium is not installed")
        shot = os.path.join(self.folder, "report.png")
        done = subprocess.run([browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1000,1600", "--enable-logging=stderr", "--v=0", f"--user-data-dir={self.folder}/profile",
                               f"--screenshot={shot}", "file://" + path], capture_output=True, timeout=120)
        self.assertTrue(os.path.exists(shot), done.stderr.decode(errors="replace")[-2000:])
        self.assertGreater(os.path.getsize(shot), 20000)
        self.assertNotRegex(done.stderr.decode(errors="replace"), r"CONSOLE")
        # As Chromium lays it out, not as it was written: every section is there and no chart is without a size.
        dom = subprocess.run([browser, "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={self.folder}/profile", "--dump-dom", "file://" + path],
                             capture_output=True, timeout=120).stdout.decode(errors="replace")
        for section in ("decisions", "streams", "memory", "graphs", "reasons", "run"):
            self.assertRegex(dom, f'<h2 id="{section}">')
        self.assertEqual(dom.count("<svg"), html.count("<svg"))
        self.assertEqual(dom.count("<tr"), html.count("<tr"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    known, rest = parser.parse_known_args()
    BUILD = os.path.abspath(known.build)
    unittest.main(argv=[__file__, *rest])
