#!/usr/bin/env python3
"""`shunt trace correlate` on synthetic databases in nsys's schema and on Kineto files: two processes that share every number, graph and
node mode, missing tables and columns, foreign NVTX domains. Usage: correlate_test.py --build DIR"""
import argparse
import csv
import io
import json
import os
import shutil
import sqlite3
import subprocess
import tempfile
import unittest

BUILD = ""
COUNT = 40
RUNTIME = "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(start,end,eventClass,globalTid,correlationId,nameId,returnValue);"
KERNEL = "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start,end,deviceId,contextId,streamId,correlationId,globalPid,graphNodeId);"
GRAPH = "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE(start,end,deviceId,graphId,graphExecId,contextId,streamId,correlationId,globalPid);"
NVTX = "CREATE TABLE NVTX_EVENTS(start,end,eventType,globalTid,domainId,uint64Value,text,textId);"


def tool(*arguments):
    return subprocess.run([os.path.join(BUILD, "bin/shunt"), "trace", *arguments], capture_output=True, text=True, check=True).stdout


class Correlate(unittest.TestCase):
    """A run of two processes, whose decision ids are the same: ids count by thread from one in each."""
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.run_dir = os.path.join(cls.folder, "run.shunt")
        for _ in range(2):
            subprocess.run([os.path.join(BUILD, "tests/make_trace"), cls.run_dir, str(COUNT), "threads=1"], check=True, stdout=subprocess.DEVNULL)
        summary = json.loads(tool("summary", cls.run_dir, "--json"))
        cls.pids = sorted(p["pid"] for p in summary["processes"])
        rows = csv.DictReader(io.StringIO(tool("export", cls.run_dir, "--format", "csv", "-o", "-")))
        ids = {pid: [] for pid in cls.pids}
        for r in rows:
            if r["kind"] == "decision" and r["outcome"] == "applied" and r["name"] == "graph:graph-replay":
                ids[int(r["pid"])].append(int(r["id"]))
        cls.ids = ids[cls.pids[0]]
        assert cls.ids and cls.ids == ids[cls.pids[1]]

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def database(self, schema):
        path = os.path.join(self.folder, f"{len(os.listdir(self.folder))}.sqlite")
        db = sqlite3.connect(path)
        db.executescript(schema)
        return path, db

    def gtid(self, process, tid=5):
        return (1 << 48) | (self.pids[process] << 24) | tid

    def gpid(self, process):
        return (1 << 48) | (self.pids[process] << 24)

    def launch(self, db, process, t, decision, correlation, domain=1):
        db.execute("INSERT INTO NVTX_EVENTS(start,end,eventType,globalTid,domainId,uint64Value) VALUES(?,?,59,?,?,?)", (t, t + 100, self.gtid(process), domain, decision))
        db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES(?,?,1,?,?,1,0)", (t + 10, t + 20, self.gtid(process), correlation))

    def correlate(self, path, db, kind="--nsys"):
        if db:
            db.commit()
            db.close()
        found = json.loads(tool("correlate", self.run_dir, kind, path, "--json"))
        self.assertEqual(found["decisions"], sum(found["matched"].values()) + sum(found["unmatched"].values()))
        return found

    def test_processes_that_share_every_number_in_graph_mode(self):
        path, db = self.database(RUNTIME + GRAPH + NVTX)
        for process in (0, 1):
            for i, decision in enumerate(self.ids):
                self.launch(db, process, 1000 * (i + 1), decision, 40 + i)
        # Only the first process did device work; the second's launches have the same correlation ids.
        for i in range(len(self.ids)):
            t = 1000 * (i + 1) + 500
            db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES(?,?,0,1,9,1,7,?,?)", (t, t + 60, 40 + i, self.gpid(0)))
        found = self.correlate(path, db)
        self.assertEqual(found["matched"], {"nvtx-range": len(self.ids)})
        self.assertEqual(found["unmatched"]["API rows in the range started no recorded device work"], len(self.ids))
        self.assertEqual(found["gpu_ns"], {"graph": 60 * len(self.ids)})

    def test_node_mode_sums_the_nodes_of_one_launch(self):
        path, db = self.database(RUNTIME + KERNEL + NVTX)
        for process in (0, 1):
            self.launch(db, process, 1000, self.ids[0], 40)
            for node in range(5):
                db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES(?,?,0,1,7,40,?,?)", (1500 + 10 * node, 1507 + 10 * node + process, self.gpid(process), node + 1))
        found = self.correlate(path, db)
        self.assertEqual(found["matched"], {"nvtx-range": 2})
        self.assertEqual(found["gpu_ns"], {"graph": 5 * 7 + 5 * 8})

    def test_a_launch_outside_the_range_does_not_count(self):
        path, db = self.database(RUNTIME + KERNEL + NVTX)
        self.launch(db, 0, 1000, self.ids[0], 40)
        db.execute("UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET start = 1101, end = 1102")
        db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES(1050,1060,0,1,7,40,?,NULL)", (self.gpid(0),))   # in time, but not by id
        found = self.correlate(path, db)
        self.assertEqual(found["matched"], {})
        self.assertEqual(found["unmatched"]["no API row in the range (nsys skips some calls by default)"], 1)

    def test_another_thread_of_the_process_does_not_count(self):
        path, db = self.database(RUNTIME + KERNEL + NVTX)
        self.launch(db, 0, 1000, self.ids[0], 40)
        db.execute("UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET globalTid = ?", (self.gtid(0, 6),))
        db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES(1050,1060,0,1,7,40,?,NULL)", (self.gpid(0),))
        self.assertEqual(self.correlate(path, db)["matched"], {})

    def test_only_the_domain_shunt_counts_where_domains_are_named(self):
        path, db = self.database(RUNTIME + KERNEL + NVTX + "CREATE TABLE StringIds(id, value); INSERT INTO StringIds VALUES(3, 'shunt');"
                                 "CREATE TABLE ENUM_NSYS_EVENT_TYPE(id, name, label); INSERT INTO ENUM_NSYS_EVENT_TYPE VALUES(75, 'NvtxDomainCreate', '');")
        db.execute("INSERT INTO NVTX_EVENTS(start,eventType,globalTid,domainId,textId) VALUES(1,75,?,4,3)", (self.gtid(0),))
        db.execute("INSERT INTO NVTX_EVENTS(start,eventType,globalTid,domainId,text) VALUES(1,75,?,2,'other')", (self.gtid(0),))
        for i, domain in enumerate((4, 2)):
            self.launch(db, 0, 1000 * (i + 1), self.ids[i], 40 + i, domain)
            db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES(5000,5060,0,1,7,?,?,NULL)", (40 + i, self.gpid(0)))
        self.assertEqual(self.correlate(path, db)["matched"], {"nvtx-range": 1})

    def test_what_the_database_lacks_is_said(self):
        lacks = {
            "": "no CUPTI_ACTIVITY_KIND_RUNTIME",
            NVTX: "no CUPTI_ACTIVITY_KIND_RUNTIME",
            RUNTIME: "no NVTX_EVENTS: run nsys with -t nvtx,cuda",
            RUNTIME + NVTX: "not in the export: CUPTI_ACTIVITY_KIND_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY",
            RUNTIME + "CREATE TABLE NVTX_EVENTS(start,end,eventType,text);": "NVTX_EVENTS lacks globalTid, uint64Value",
            "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(start,end,globalTid);" + NVTX: "CUPTI_ACTIVITY_KIND_RUNTIME lacks correlationId",
            RUNTIME + NVTX + "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start,end,correlationId);": "not in the export: CUPTI_ACTIVITY_KIND_KERNEL",
        }
        for schema, note in lacks.items():
            with self.subTest(note):
                path, db = self.database("CREATE TABLE META_DATA_EXPORT(name, value);" + schema)
                found = self.correlate(path, db)
                self.assertIn(note, found["note"])
                self.assertEqual(found["matched"], {})

    def kineto(self, events):
        path = os.path.join(self.folder, "kineto.json")
        with open(path, "w") as f:
            json.dump({"schemaVersion": 1, "traceEvents": events}, f)
        return path

    def kernel(self, external, **args):
        return {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 2.5, "args": dict(args, **{"External id": external})}

    def test_a_kineto_file_is_one_process(self):
        call = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": self.pids[1], "tid": 1, "ts": 0, "dur": 1, "args": {"correlation": 3}}
        found = self.correlate(self.kineto([call, self.kernel(self.ids[0])]), None, "--kineto")
        self.assertEqual(found["matched"], {"external-id": 1})   # not two, though both processes have this id
        self.assertEqual(found["gpu_ns"], {"graph": 2500})

    def test_a_kineto_file_that_does_not_say_which_process(self):
        found = self.correlate(self.kineto([self.kernel(self.ids[0])]), None, "--kineto")
        self.assertEqual(found["matched"], {})
        self.assertIn("do not say which process", found["note"])
        found = self.correlate(self.kineto([self.kernel(self.ids[0], process=self.pids[0]), self.kernel(self.ids[1], process=self.pids[1])]), None, "--kineto")
        self.assertEqual(found["matched"], {"external-id": 2})


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    known, rest = parser.parse_known_args()
    BUILD = os.path.abspath(known.build)
    unittest.main(argv=[__file__, *rest])
